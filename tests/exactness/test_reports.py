"""What users have reported of inference servers, tried on this one with the small real model."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from support.real_model import small_model
from zlrs import _core

if TYPE_CHECKING:
    from collections.abc import Iterator

CONTEXT_TOKENS = 512


def load(**options: object) -> _core.Engine:
    return _core.Engine.load(small_model(), context_tokens=CONTEXT_TOKENS, **options)


@pytest.fixture(scope="module")
def engine() -> Iterator[_core.Engine]:
    loaded = load(drafting="off")
    yield loaded
    loaded.close()


def finish(generation: _core.Generation) -> tuple[list[int], _core.Finished]:
    ids: list[int] = []
    while True:
        for event in generation.wait(1000):
            if isinstance(event, _core.Finished):
                return ids, event
            ids += event.ids


def ask(engine: _core.Engine, ids: list[int], **options: object) -> tuple[list[int], _core.Finished]:
    return finish(engine.submit(ids, **{"max_tokens": 24, **options}))


@pytest.mark.t1
def test_guesses_do_not_change_a_text_that_repeats(engine: _core.Engine) -> None:
    prompt = engine.encode("serving " * 48)
    expected, _ = ask(engine, prompt, max_tokens=48)
    guessing = load(drafting="always")
    ids, end = ask(guessing, prompt, max_tokens=48)
    assert ids == expected
    assert end.accepted_tokens > 0
    guessing.close()


@pytest.mark.t1
def test_the_same_request_three_times_is_the_same_text(engine: _core.Engine) -> None:
    prompt = engine.render([("system", "You are terse."), ("user", "Name three rivers of France.")])
    answers = [ask(engine, prompt, tenant=bytes(31) + b"3") for _ in range(3)]
    assert answers[0][0] == answers[1][0] == answers[2][0]
    assert [end.cached_tokens for _, end in answers] == [0, len(prompt) - 1, len(prompt) - 1]
    # A strict prefix of what is known, and a prompt that begins like it and goes elsewhere.
    for shorter in (prompt[: len(prompt) // 2], [*prompt[:17], *prompt[20:]]):
        warm, _ = ask(engine, shorter, tenant=bytes(31) + b"3")
        cold, _ = ask(engine, shorter, tenant=bytes(31) + b"4")
        assert warm == cold


@pytest.mark.t1
def test_ten_sequences_that_do_not_fit_together_all_end(engine: _core.Engine) -> None:
    block_bytes = int(engine.info()["kv_bytes"]) // (CONTEXT_TOKENS // 16)
    small = load(kv_bytes=block_bytes * 32)
    prompts = [engine.encode(f"Story number {index}. Once upon a time")[:8] for index in range(10)]
    open_ = [small.submit(prompt, max_tokens=196, logit_bias={2: -100.0}) for prompt in prompts]
    for generation in open_:
        ids, end = finish(generation)
        assert (len(ids), end.reason) == (196, "max_tokens")
    statistics = small.statistics()
    assert statistics["kv_blocks_used"] == 0
    assert statistics["kv_blocks_peak"] <= 32
    # Nothing is ever shifted out: a window that is full ends the answer.
    ids, end = ask(small, prompts[0], max_tokens=4000, logit_bias={2: -100.0})
    assert (end.reason, len(prompts[0]) + len(ids)) == ("context", CONTEXT_TOKENS)
    small.close()


@pytest.mark.t1
def test_too_long_a_prompt_is_refused_and_the_engine_lives(engine: _core.Engine) -> None:
    with pytest.raises(_core.CoreError, match="prompt is too long: 512 tokens > 511 maximum"):
        engine.submit([5] * CONTEXT_TOKENS, max_tokens=1)
    with pytest.raises(_core.CoreError, match="prompt is too long"):
        engine.submit(engine.encode("word " * 200_000), max_tokens=1)
    ids, _ = ask(engine, [5] * (CONTEXT_TOKENS - 1), max_tokens=9)
    assert len(ids) <= 1


@pytest.mark.t1
def test_cancelling_one_that_waits_leaves_the_others(engine: _core.Engine) -> None:
    prompt = engine.encode("The old bridge over the river")
    expected, _ = ask(engine, prompt)
    running = engine.submit(prompt, max_tokens=24)
    waiting = [engine.submit(prompt, max_tokens=24) for _ in range(4)]
    for generation in waiting[:2]:
        generation.cancel()
    for generation in [running, *waiting[2:]]:
        assert finish(generation)[0] == expected
    for generation in waiting[:2]:
        ids, end = finish(generation)
        assert end.reason in {"cancelled", "max_tokens", "stop"}
        assert ids == expected[: len(ids)]
    assert engine.statistics()["kv_blocks_used"] == 0


@pytest.mark.t1
def test_a_seed_means_the_same_alone_and_among_others(engine: _core.Engine) -> None:
    prompt = engine.encode("A haiku on rain:\n")
    sampled = {"temperature": 1.0, "seed": 42, "max_tokens": 16}
    expected = ask(engine, prompt, **sampled)[0]
    assert all(ask(engine, prompt, **sampled)[0] == expected for _ in range(5))
    open_ = [engine.submit(prompt, **{**sampled, "seed": 42 + index % 2}) for index in range(8)]
    answers = [finish(generation)[0] for generation in open_]
    assert all(ids == expected for ids in answers[::2])
    assert all(ids == answers[1] for ids in answers[1::2])
    assert answers[1] != expected


@pytest.mark.t1
@pytest.mark.parametrize("drafting", ["off", "always"])
def test_a_bias_against_the_likeliest_token_holds(engine: _core.Engine, drafting: str) -> None:
    other = load(drafting=drafting)
    prompt = engine.encode("The capital of France is")
    first = ask(engine, prompt, max_tokens=1)[0][0]
    ids, _ = ask(other, prompt, logit_bias={first: -100.0})
    assert first not in ids
    other.close()
