"""How fast a masked model decodes beside the full one."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from zlrs.engine import Engine

PROMPT = "Write down, step by step, how one plants a row of young apple trees."
DECODED_TOKENS = 64
TURNS = 3
MILLISECONDS = 1000


class Speeds(NamedTuple):
    """Decoded tokens a second of one answer, medians; 0 where answers were too short to tell."""

    full: float
    masked: float


def decoding_speeds(full: Engine, masked: Engine, turns: int = TURNS) -> Speeds:
    """Let both decode in turns, so that what slows the machine down slows down both.

    Args:
        full: The full model, loaded with `drafting="off"`: all tokens of a repeated answer would be guessed.
        masked: The one with the mask, loaded likewise.
        turns: Answers of each.
    """
    rates: tuple[list[float], list[float]] = ([], [])
    for _ in range(turns):
        for engine, taken in zip((full, masked), rates, strict=True):
            answer = engine.generate(PROMPT, max_tokens=DECODED_TOKENS)
            # The first token comes with the prompt.
            decoded, took_ms = answer.usage.output_tokens - 1, answer.timings.decode_ms
            taken.append(MILLISECONDS * decoded / took_ms if decoded > 0 and took_ms > 0 else 0.0)
    return Speeds(statistics.median(rates[0]), statistics.median(rates[1]))
