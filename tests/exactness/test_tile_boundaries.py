"""Prompts around the sizes of tiles and chunks are answered, and answered the same."""

from __future__ import annotations

import pytest

from support.real_model import small_model
from zlrs.engine import Engine

pytestmark = pytest.mark.t1

BOUNDARIES = (63, 64, 65, 1024, 1025, 2047, 2048, 2049)


@pytest.fixture(scope="module")
def ids() -> list[int]:
    text = "The mill stood by the river, and its wheel had not turned for forty years. "
    with Engine.load(str(small_model()), context_tokens=64, progress=False) as engine:
        return engine.prepare(text * 160)[: max(BOUNDARIES)]


def test_no_answer_is_empty_at_a_boundary(ids: list[int]) -> None:
    assert len(ids) == max(BOUNDARIES)
    with Engine.load(str(small_model()), context_tokens=2056, progress=False) as engine:
        for tokens in BOUNDARIES:
            answer = engine.complete(ids[:tokens], max_tokens=2)
            assert answer.usage.output_tokens > 0, tokens
            assert answer.usage.input_tokens == tokens


def test_a_window_of_2049_holds_one_token_after_2048(ids: list[int]) -> None:
    with Engine.load(str(small_model()), context_tokens=2049, progress=False) as engine:
        answer = engine.complete(ids[:2048], max_tokens=1)
        assert (answer.usage.output_tokens, len(answer.token_ids)) == (1, 1)
