"""Drafting against plain decoding of the same engine, by category; the tokens must be the same."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING

from report import Figure

from serve.prompts import CATEGORIES, COPYING
from zlrs import Engine

if TYPE_CHECKING:
    from pathlib import Path

    from zlrs.results import Completion

MAX_TOKENS = 96
CONTEXT_TOKENS = 2048
COPYING_TARGET = 1.6
LEAST = 0.98


def _decode_seconds(done: Completion) -> float:
    """Per token after the first; the prompt's time is no matter of drafting."""
    return done.timings.decode_ms / 1000 / max(1, done.usage.output_tokens - 1)


def drafting(path: Path, threads: int, rounds: int) -> list[Figure]:
    """Both engines in turn on every prompt, each of its own tenant, so that no answer is known before."""
    ratios: dict[str, list[float]] = {name: [] for name in CATEGORIES}
    speeds: dict[str, list[float]] = {name: [] for name in CATEGORIES}
    counts: dict[str, list[int]] = {name: [0, 0] for name in CATEGORIES}
    with (
        Engine.load(
            path, threads=threads, context_tokens=CONTEXT_TOKENS, drafting="off", progress=False
        ) as plain,
        Engine.load(
            path, threads=threads, context_tokens=CONTEXT_TOKENS, drafting="auto", progress=False
        ) as fast,
    ):
        for engine in (plain, fast):  # costs of steps are learned here, and pages become warm
            engine.generate([{"role": "user", "content": CATEGORIES["edit"][0]}], max_tokens=MAX_TOKENS)
        for turn in range(1, rounds + 1):
            for name, prompts in CATEGORIES.items():
                print(f"  drafting, round {turn} of {rounds}: {name}", flush=True)
                for index, prompt in enumerate(prompts):
                    messages = [{"role": "user", "content": prompt}]
                    tenant = f"{turn}-{name}-{index}".encode().ljust(32, b"-")
                    pair = [
                        engine.generate(messages, max_tokens=MAX_TOKENS, tenant=tenant)
                        for engine in ((plain, fast) if turn % 2 else (fast, plain))
                    ]
                    before, after = pair if turn % 2 else pair[::-1]
                    if before.token_ids != after.token_ids:
                        raise RuntimeError(f"drafting changed an answer: {name} {index}")
                    if before.usage.output_tokens > 1:
                        ratios[name].append(_decode_seconds(before) / _decode_seconds(after))
                        speeds[name].append(1 / _decode_seconds(after))
                        counts[name][0] += after.usage.drafted_tokens
                        counts[name][1] += after.usage.accepted_tokens
    figures = []
    for name in CATEGORIES:
        ratio = statistics.median(ratios[name])
        speed = statistics.median(speeds[name])
        target = COPYING_TARGET if name in COPYING else LEAST
        drafted, accepted = counts[name]
        figures.append(
            Figure(
                f"drafting, {name}", "tok/s", speed, peer="own plain decode", peer_value=speed / ratio,
                ratio=ratio, target=f"≥ {target} ×", met=ratio >= target,
                note=f"{accepted} of {drafted} guesses right",
            )
        )  # fmt: skip
    return figures
