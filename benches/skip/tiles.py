"""Tile boundaries: a prompt of one token more than a tile, a chunk or a power of two costs one token more."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING

from report import Figure

from zlrs import Engine

if TYPE_CHECKING:
    from skip.setting import Setting

BOUNDARIES = (63, 1024, 2048)
LIMIT_PERCENT = 5.0
SHORT_TOKENS = 256
REPEATS_OF_SHORT = 8
"""Short prompts are over quickly, so that each turn takes the least of several."""


def measure(setting: Setting) -> list[Figure]:
    """Time to the first token of n and n + 1 tokens in turns; nothing is reused."""
    context = max(BOUNDARIES) + 2
    figures = []
    with Engine.load(
        setting.model, threads=setting.threads, context_tokens=context, drafting="off", progress=False
    ) as engine:
        ids = engine.prepare("\n".join(text.text for text in setting.texts)[: 64 * context])
        fresh = iter(range(1, 1 << 30))
        for tokens in BOUNDARIES:
            taken: tuple[list[float], list[float]] = ([], [])
            repeats = REPEATS_OF_SHORT if tokens < SHORT_TOKENS else 1
            for turn in range(2 * setting.rounds):
                for more in (0, 1) if turn % 2 else (1, 0):
                    times = [prefill_ms(engine, ids, tokens + more, next(fresh)) for _ in range(repeats)]
                    taken[more].append(min(times))
            ms, ms_more = (statistics.median(times) for times in taken)
            percent = 100 * (ms_more / ms - 1)
            figures.append(
                Figure(
                    f"tiles: {tokens + 1} tokens of prompt beside {tokens}: time added", "%",
                    percent, f"{tokens} tokens, ms", ms, target=f"<= {LIMIT_PERCENT:g} %",
                    met=percent <= LIMIT_PERCENT, note=f"{100 / tokens:.2f} % more tokens",
                )
            )  # fmt: skip
    return figures


def prefill_ms(engine: Engine, ids: list[int], tokens: int, number: int) -> float:
    """Time to the first token of a prompt whose beginning was never asked before."""
    start = number % max(1, len(ids) - tokens)
    prompt = [ids[number % len(ids)], ids[number // len(ids) % len(ids)], *ids[start : start + tokens - 2]]
    answer = engine.complete(prompt, max_tokens=1)
    # Torn-off text may be over for the model: then its first choice is the end, and no token is shown.
    if answer.usage.output_tokens != 1 and answer.finish_reason != "stop":
        raise RuntimeError(f"{tokens} tokens of prompt gave an empty answer")
    return answer.timings.prefill_ms
