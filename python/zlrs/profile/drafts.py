"""The search for the parts that a model leaves out while it guesses its own tokens.

Guesses are verified by the full model, so nothing bounds what may be left out but the time it saves: a
guess costs the weights it reads, and brings a token as often as the smaller model's first choice is the full
model's. Layers are skipped for drafts in the way of Zhang et al., "Draft & Verify", 2023; here attention and
MLP blocks one by one, by greedy search.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from zlrs.profile.build import gain_of
from zlrs.profile.parts import candidates, weight_bytes
from zlrs.profile.report import MaskReport
from zlrs.profile.search import Search

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from zlrs._core import Mask, Meter
    from zlrs.profile.domains import Domain
    from zlrs.profile.harm import DomainHarm
    from zlrs.profile.parts import Part

VOCABULARIES = (2048, 4096, 8192, 16_384, 32_768, 65_536)
"""Sizes of the head that guesses are made with."""
LONGEST_CHAIN = 6
"""Guesses made before a step at most."""
ROW_SHARE = 0.06
"""Of a step of one row, what each row to verify is taken to cost."""
TRIED = 3
"""Blocks that compete for being left out next."""
HOPELESS = 0.4
"""The search ends where so few guesses would be right."""


class Chosen(NamedTuple):
    """What was found.

    Attributes:
        mask: The parts left out while guessing.
        cost: Of the weights read for a token, the share read for a guess.
        agreement: Share of held-out places where the first choice of all tokens is the full model's.
        covered: Share of the texts' tokens that can be guessed at all.
        vocabulary: Tokens that can be guessed.
        expected_speed: Of decoding with guesses over decoding without, by bytes alone.
    """

    mask: Mask
    cost: float
    agreement: float
    covered: float
    vocabulary: int
    expected_speed: float


class _Step(NamedTuple):
    """A mask on the way."""

    mask: Mask
    parts: list[Part]
    saved: float
    speed: float
    vocabulary: int


def expected_speed(agreement: float, cost: float) -> float:
    """Tokens a second with guesses over those without, for the best length of a chain.

    Args:
        agreement: How often a guess is right, 0 … 1.
        cost: Time of a guess over that of a step.
    """
    return max(
        math.fsum(agreement**index for index in range(guesses + 1)) / (1 + guesses * (cost + ROW_SHARE))
        for guesses in range(1, LONGEST_CHAIN + 1)
    )


def choose(
    meter: Meter,
    domains: Sequence[Domain],
    *,
    model: str,
    calibration_sha256: bytes,
    every: int = 4,
    vocabularies: Sequence[int] = VOCABULARIES,
    progress: Callable[[str], None] = lambda _: None,
) -> Chosen:
    """Search for the parts to leave out.

    Each block is left out alone, with its mean in its place, and ranked by first choices changed for bytes
    saved. Then one block after another is left out, of the next few the one that changes fewest; of all masks
    on the way the one with the fastest drafts is taken. That may be the empty one: then the shorter head is
    all that guesses save.

    Args:
        meter: The loaded model.
        domains: Texts, at least two windows each.
        model: The model's name, for the report.
        calibration_sha256: Of the texts.
        every: Logits are compared after every so many tokens, and after the last of each text.
        vocabularies: Tokens that can be guessed, to choose from: the head's first so many rows.
        progress: Told what is going on, a line at a time.
    """
    search = Search(meter, domains, every)
    empty = meter.empty_mask()
    blocks = sum(attention + mlp for *_, attention, mlp in search.shapes)
    head = meter.token_bytes - blocks
    tokens = [token for domain in domains for window in domain.windows for token in window]
    covered = {
        vocabulary: sum(token < vocabulary for token in tokens) / len(tokens)
        for vocabulary in {min(size, meter.vocabulary) for size in vocabularies}
    }

    def cost(saved: float, vocabulary: int) -> float:
        return (blocks - saved + head * vocabulary / meter.vocabulary) / meter.token_bytes

    def fastest(agreement: float, saved: float) -> tuple[float, int]:
        return max(
            (expected_speed(agreement * share, cost(saved, vocabulary)), vocabulary)
            for vocabulary, share in covered.items()
        )

    remaining = _rank(search, empty, progress)
    path = _Step(empty, [], 0.0, *fastest(1.0, 0.0))
    progress(f"with all blocks: {path.vocabulary} tokens, {path.speed:.3f} x")
    best = path
    while remaining:
        search.start_from(path.mask)
        tried = [(search.add(path.mask, part, constant=True), part) for part in remaining[:TRIED]]
        judged = [(_agreement(search.searched(mask)), mask, part) for mask, part in tried]
        agreement, mask, part = max(judged, key=lambda entry: entry[0])
        remaining.remove(part)
        if all(attention for attention, *_ in mask.layers()):
            continue
        saved = path.saved + weight_bytes(part, search.shapes)
        path = _Step(mask, [*path.parts, part], saved, *fastest(agreement, saved))
        progress(
            f"without {part}: right {agreement:.1%}, {path.vocabulary} tokens,"
            f" {cost(saved, path.vocabulary):.0%} of the weights, {path.speed:.3f} x"
        )
        best = max(best, path, key=lambda step: step.speed)
        if agreement < HOPELESS:
            break
    mask, parts, saved, _, vocabulary = best
    held_out = search.held_out(mask)
    report = MaskReport(
        model=model,
        budget_kl=max(harm.kl_upper for harm in held_out),
        parts=[str(part) for part in parts],
        searched=search.searched(mask),
        held_out=held_out,
        steps_back=0,
        gain=gain_of(meter, mask),
        evaluations=search.evaluations,
        draft_vocabulary=vocabulary,
    )
    mask = mask.measured(msgspec.json.encode(report).decode(), calibration_sha256)
    agreement = _agreement(held_out)
    read = cost(saved, vocabulary)
    speed = expected_speed(agreement * covered[vocabulary], read)
    return Chosen(mask, read, agreement, covered[vocabulary], vocabulary, speed)


def _rank(search: Search, empty: Mask, progress: Callable[[str], None]) -> list[Part]:
    """Blocks by first choices changed for bytes saved, the cheapest first."""
    found = []
    search.start_from(empty)
    for part in candidates(search.shapes, ("attention", "mlp")):
        wrong = 1 - _agreement(search.searched(search.add(empty, part, constant=True)))
        found.append((wrong / weight_bytes(part, search.shapes), part))
    found.sort(key=lambda entry: (entry[0], entry[1]))
    progress(f"{len(found)} blocks left out one by one")
    return [part for _, part in found]


def _agreement(harms: Sequence[DomainHarm]) -> float:
    rows = sum(harm.rows for harm in harms)
    return 1 - math.fsum(harm.top1_disagreement * harm.rows for harm in harms) / max(rows, 1)
