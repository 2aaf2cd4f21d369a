"""Guesses that the model makes by itself: the same answers, the commands and the refusals around them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from support.real_model import small_model
from zlrs import _core
from zlrs.cli.dispatch import main
from zlrs.engine import Engine
from zlrs.errors import ConfigurationError, ZeroLayerMismatchError
from zlrs.masks import load_mask, save_mask
from zlrs.profile import report_of
from zlrs.profile.drafts import expected_speed

if TYPE_CHECKING:
    from pathlib import Path

CONTEXT = 256
PROMPT = "The town by the river had three bridges, and each of them"


@pytest.fixture
def mask_file(tmp_path: Path) -> Path:
    mask = _core.Meter.load(small_model(), window_tokens=16).empty_mask()
    for layer in (11, 13, 15, 17):
        mask = mask.without(layer, "mlp")
    path = tmp_path / "drafts.mask"
    save_mask(mask, path)
    return path


@pytest.mark.t1
def test_answers_stops_and_sessions_are_those_without_guesses(mask_file: Path) -> None:
    model = str(small_model())
    asked = [
        (PROMPT, {"max_tokens": 40}),
        (PROMPT, {"max_tokens": 40, "temperature": 0.8, "seed": 5}),
        ("def fib(n):\n", {"max_tokens": 40, "stop": ["return"]}),
    ]
    turns = (PROMPT, " And then the fourth")

    def answers(engine: Engine) -> list[str]:
        texts = [engine.generate(prompt, **options).text for prompt, options in asked]
        texts += [
            answer.text for answer in engine.generate_many([prompt for prompt, _ in asked], max_tokens=24)
        ]
        with engine.session() as session:
            texts += [session.generate(turn, max_tokens=16).text for turn in turns]
        return texts

    with Engine.load(model, context_tokens=CONTEXT, drafting="off", progress=False) as plain:
        expected = answers(plain)
    for itself in ("auto", "always"):
        with Engine.load(
            model, context_tokens=CONTEXT, drafting="off", self_drafting=itself, draft_mask=mask_file,
            draft_vocabulary=8192, progress=False,
        ) as engine:  # fmt: skip
            assert answers(engine) == expected
            counts = engine.statistics
            if itself == "always":
                assert 0 < counts["tokens_accepted"] < counts["tokens_drafted"]
                assert counts["steps"] < counts["tokens_decoded"]


@pytest.mark.t1
def test_a_mask_is_needed_and_must_be_for_these_weights(mask_file: Path, tmp_path: Path) -> None:
    model = str(small_model())
    with pytest.raises(ConfigurationError, match="draft_mask"):
        Engine.load(model, self_drafting="auto", progress=False)
    with pytest.raises(ConfigurationError, match="allowed: off, auto, always"):
        Engine.load(model, self_drafting="often", draft_mask=mask_file, progress=False)  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="draft_vocabulary"):
        Engine.load(model, self_drafting="auto", draft_mask=mask_file, draft_vocabulary=0, progress=False)
    other = tmp_path / "other.mask"
    save_mask(load_mask(mask_file).for_weights(bytes(32)), other)
    with pytest.raises(ZeroLayerMismatchError):
        Engine.load(model, self_drafting="auto", draft_mask=other, progress=False)
    # Not looked at where it is not used.
    Engine.load(model, draft_mask=other, context_tokens=64, progress=False).close()


@pytest.mark.t1
def test_the_command_finds_parts_and_says_what_they_cost(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "found.mask"
    size = ["--window-tokens", "16", "--windows", "2", "--every", "8"]
    assert main(["drafts", "train", str(small_model()), "--out", str(out), *size]) == 0
    assert "of a token's weights" in capsys.readouterr().err
    report = report_of(load_mask(out))
    assert report is not None
    assert report.gain.token_bytes <= report.gain.token_bytes_full
    assert report.draft_vocabulary > 0
    assert len(report.parts) == sum(attention + mlp for attention, mlp, *_ in load_mask(out).layers())


def test_the_expected_speed_is_that_of_the_best_chain() -> None:
    assert expected_speed(1.0, 0.0) > 4
    assert expected_speed(0.0, 0.5) < 1
    assert expected_speed(0.8, 0.39) > expected_speed(0.6, 0.39) > expected_speed(0.6, 0.68)
