"""Ids of answers on the small real model: the same whatever else runs.

Alone, together, cold, warm, after eviction, with any threads and chunks, with guesses and without, as the
next turn of a conversation: one difference is a fault.
Half of the prompts are decoded greedily, half sampled with a seed. The long suite is `make exactness`.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, NamedTuple

import pytest

from support.real_model import small_model
from zlrs import _core

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

CONTEXT_TOKENS = 1024
TOGETHER = 8
COUNTING = "one two three four five six seven eight nine ten. "
EXIT_WINDOWS, EXIT_WINDOW_TOKENS = 10, 48

OPENINGS = (
    "", "You are a careful assistant. Answer in one sentence.", "Continue the story.", "Write a short poem.",
    "You review code. Be strict and name the line.\n" * 4,
    "The following is a conversation between a traveller and a clerk at a small station.\n" * 8,
)  # fmt: skip
TOPICS = (
    "What is the capital of France?", "def fib(n):", "Why is the sky blue?",
    "List three prime numbers.", "Translate to French: the cat sleeps.", "😀🇩🇪 repeat",
    "请用一句话介绍北京。", "SELECT name FROM users WHERE",
    "Summarise: water boils at 100 degrees at sea level, lower on mountains.", "2 + 2 * 2 =",
    "Once upon a time", "Dear Sir or Madam,", "for (int i = 0; i < n; i++)", "<html><body>",
    "What is 17 times 23?", "A haiku on rain", "Name a river.", "The quick brown fox",
    "How do I boil an egg?", '{"name": "zlrs", "version":', "Explain recursion to a child.",
    "Who wrote Faust?", "Correct: he go to school.", "import os", "What rhymes with light?",
    "Give me a regex for dates.", "Is 91 prime?", "Write a limerick.", "Describe the taste of salt.",
    "Make a shopping list.", "What is entropy?", "Tell me a secret.", "Why?", "Yes.",
)  # fmt: skip


class Asked(NamedTuple):
    prompt: tuple[int, ...]
    seed: int | None


class Answered(NamedTuple):
    ids: tuple[int, ...]
    reason: str
    cached_tokens: int
    left: int
    """Tokens for which a layer was left out."""


def prompts(engine: _core.Engine, count: int) -> list[Asked]:
    """Conversations that share beginnings; every second one is sampled."""
    pairs = itertools.islice(itertools.product(TOPICS, OPENINGS), count)
    asked = []
    for index, (topic, opening) in enumerate(pairs):
        turns = [("system", opening), ("user", topic)] if opening else [("user", topic)]
        asked.append(Asked(tuple(engine.render(turns)), index if index % 2 else None))
    assert len(asked) == count
    return asked


def finish(generation: _core.Generation) -> Answered:
    ids: list[int] = []
    while True:
        for event in generation.wait(1000):
            if isinstance(event, _core.Finished):
                return Answered(tuple(ids), event.reason, event.cached_tokens, event.sparse_skips)
            ids += event.ids


def ask(
    engine: _core.Engine,
    asked: Iterable[Asked],
    tokens: int,
    *,
    tenant: int,
    together: int,
    compute: str = "exact",
) -> list[Answered]:
    """Answers in order, so many requests at once."""
    answers, open_ = [], []
    for one in asked:
        sampling = {} if one.seed is None else {"temperature": 0.8, "top_p": 0.95, "seed": one.seed}
        tenant_bytes = tenant.to_bytes(32, "big")
        open_.append(
            engine.submit(one.prompt, max_tokens=tokens, tenant=tenant_bytes, compute=compute, **sampling)
        )
        if len(open_) == together:
            answers.append(finish(open_.pop(0)))
    return answers + [finish(generation) for generation in open_]


def same(got: Sequence[Answered], expected: Sequence[Answered], what: str) -> None:
    for index, (left, right) in enumerate(zip(got, expected, strict=True)):
        assert left[:2] == right[:2], f"{what}: prompt {index}"


def guessing_mask(path: Path) -> _core.Mask:
    """Some blocks of the middle: guesses are sometimes right without them."""
    meter = _core.Meter.load(path, window_tokens=16)
    mask = meter.empty_mask()
    layers = len(mask.layers())
    for layer in range(layers // 3, layers // 2):
        mask = mask.without(layer, "mlp" if layer % 2 else "attention")
    return mask


def heads_that_let_rows_leave(path: Path) -> _core.ExitHeads:
    """Exit heads of a bound so lenient that many rows leave."""
    trainer = _core.ExitTrainer.load(path, window_tokens=EXIT_WINDOW_TOKENS)
    ids = trainer.encode(COUNTING * 60)
    starts = range(0, EXIT_WINDOWS * EXIT_WINDOW_TOKENS, EXIT_WINDOW_TOKENS)
    windows = [ids[start : start + EXIT_WINDOW_TOKENS] for start in starts]
    heads, *_ = trainer.train([("counting", windows, 1.0)], bytes(32), bound=0.9)
    assert heads.is_active
    return heads


def hold_every_variant_equal(count: int, tokens: int, tight_blocks: int) -> None:
    path = small_model()
    with_one_thread = _core.Engine.load(path, context_tokens=CONTEXT_TOKENS, threads=1, drafting="off")
    asked = prompts(with_one_thread, count)
    block_bytes = int(with_one_thread.info()["kv_bytes"]) // (CONTEXT_TOKENS // 16)
    few = asked[: max(4, count // 8)]
    engine = _core.Engine.load(
        path, context_tokens=CONTEXT_TOKENS, threads=2, kv_bytes=block_bytes * 512, drafting="off"
    )
    # Each prompt of a tenant of its own, one at a time: nothing is shared and nothing else runs.
    alone = [
        ask(engine, [one], tokens, tenant=1000 + index, together=1)[0] for index, one in enumerate(asked)
    ]
    assert all(answer.cached_tokens == 0 for answer in alone)
    same(ask(engine, asked, tokens, tenant=1, together=TOGETHER), alone, f"{TOGETHER} at once")
    warm = ask(engine, few, tokens, tenant=2, together=1)
    same(warm, alone[: len(few)], "one after the other")
    warm = ask(engine, few, tokens, tenant=2, together=1)
    same(warm, alone[: len(few)], "warm")
    assert [answer.cached_tokens for answer in warm] == [len(one.prompt) - 1 for one in few]
    same(
        ask(engine, few, tokens, tenant=2, together=TOGETHER), alone[: len(few)], f"warm, {TOGETHER} at once"
    )
    next_turns = [
        Asked((*one.prompt, *answer.ids, *with_one_thread.encode(" And then?")), one.seed)
        for one, answer in zip(few, alone, strict=False)
    ]
    whole = [
        ask(engine, [one], tokens, tenant=5000 + index, together=1)[0] for index, one in enumerate(next_turns)
    ]
    # A tenant whose first turns were just answered: those of others have pushed out what was kept before.
    ask(engine, few, tokens, tenant=3, together=TOGETHER)
    turns = ask(engine, next_turns, tokens, tenant=3, together=TOGETHER)
    same(turns, whole, "the next turn against all of it at once")
    assert all(turn.cached_tokens >= len(one.prompt) for turn, one in zip(turns, few, strict=True))
    engine.close()
    same(ask(with_one_thread, few, tokens, tenant=1, together=TOGETHER), alone[: len(few)], "one thread")
    with_one_thread.close()
    for drafting, together in (("always", 1), ("always", TOGETHER), ("auto", TOGETHER)):
        guessing = _core.Engine.load(path, context_tokens=CONTEXT_TOKENS, drafting=drafting)
        what = f"drafting {drafting}, {together} at once"
        part = asked if drafting == "always" and together > 1 else few
        same(ask(guessing, part, tokens, tenant=1, together=together), alone[: len(part)], what)
        # Now whole answers are guessed.
        same(ask(guessing, few, tokens, tenant=1, together=together), alone[: len(few)], f"{what}, again")
        statistics = guessing.statistics()
        if drafting == "always":
            assert 0 < statistics["tokens_accepted"] < statistics["tokens_drafted"]
        guessing.close()
    mask = guessing_mask(path)
    for drafting, itself, together in (
        ("off", "always", 1),
        ("auto", "always", TOGETHER),
        ("off", "auto", 1),
    ):
        guessing = _core.Engine.load(
            path, context_tokens=CONTEXT_TOKENS, drafting=drafting, self_drafting=itself, draft_mask=mask
        )
        what = f"guesses of its own ({itself}) beside {drafting}, {together} at once"
        part = asked if itself == "always" and together > 1 else few
        same(ask(guessing, part, tokens, tenant=1, together=together), alone[: len(part)], what)
        same(ask(guessing, few, tokens, tenant=1, together=together), alone[: len(few)], f"{what}, again")
        statistics = guessing.statistics()
        if itself == "always":
            assert 0 < statistics["tokens_accepted"] < statistics["tokens_drafted"]
        guessing.close()
    # What aggressive requests leave out is nothing to exact ones, nor is a mask that nobody guesses with.
    weights = bytes.fromhex(mask.weights_sha256)
    neurons = _core.Neurons(weights, bytes(32), [0.4] * len(mask.layers()), "{}")
    installed = _core.Engine.load(
        path, context_tokens=CONTEXT_TOKENS, neurons=neurons, exits=heads_that_let_rows_leave(path),
        self_drafting="off", draft_mask=mask,
    )  # fmt: skip
    assert installed.info()["can_skip"] is True
    counting = Asked(tuple(installed.encode(COUNTING * 4)), None)
    lessened = ask(installed, [*few, counting], tokens, tenant=1, together=TOGETHER, compute="aggressive")
    assert [answer.ids for answer in lessened[:-1]] != [answer.ids for answer in alone[: len(few)]]
    assert lessened[-1].left > 0
    exact = ask(installed, asked, tokens, tenant=1, together=TOGETHER)
    same(exact, alone, "neurons, exit heads and a mask to guess with installed and off")
    assert not any(answer.left for answer in exact)
    installed.close()
    # Memory for two or three at once: the others push each other's prefixes, and each other, out.
    tight = _core.Engine.load(
        path, context_tokens=512, kv_bytes=block_bytes * tight_blocks, drafting="always",
        self_drafting="always", draft_mask=mask,
    )  # fmt: skip
    same(ask(tight, asked, tokens, tenant=1, together=TOGETHER), alone, "in little memory")
    same(ask(tight, few, tokens, tenant=1, together=1), alone[: len(few)], "after eviction")
    statistics = tight.statistics()
    assert statistics["kv_blocks_evicted"] > 0
    assert statistics["kv_blocks_used"] == 0
    assert statistics["kv_blocks_peak"] <= tight_blocks
    tight.close()
    for chunk_tokens in (1, 7, 64):
        chunked = _core.Engine.load(path, context_tokens=CONTEXT_TOKENS, chunk_tokens=chunk_tokens)
        got = ask(chunked, few, tokens, tenant=1, together=1)
        same(got, alone[: len(few)], f"chunks of {chunk_tokens}")
        chunked.close()


@pytest.mark.t1
def test_a_few_answers_do_not_depend_on_what_else_runs() -> None:
    hold_every_variant_equal(6, 12, tight_blocks=18)


@pytest.mark.t2
@pytest.mark.timeout(5400)
def test_two_hundred_answers_do_not_depend_on_what_else_runs() -> None:
    hold_every_variant_equal(200, 64, tight_blocks=36)
