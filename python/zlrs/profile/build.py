"""Masks from a search: one under a budget, or one after the other along the curve of harm against saving."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from zlrs.profile.greedy import extend, held_back, rank
from zlrs.profile.parts import kv_bytes
from zlrs.profile.report import Gain, MaskReport
from zlrs.profile.search import Budget, Search, Step

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zlrs._core import Mask, Meter
    from zlrs.profile.domains import Domain
    from zlrs.profile.search import Tell


class Built(NamedTuple):
    """What a search found."""

    mask: Mask
    report: MaskReport
    steps: list[Step]
    """Every mask on the way, the empty one first."""


def build(
    meter: Meter,
    domains: Sequence[Domain],
    *,
    model: str,
    calibration_sha256: bytes,
    budget: Budget,
    every: int = 4,
    progress: Tell = lambda *_: None,
) -> Built:
    """Search for a mask.

    First each part is left out alone, once with nothing and, for blocks, once with its mean in its place;
    the better of the two is kept. Query heads are then put together, one of every KV group, for only so do
    their weights vanish. What remains is added in the order of divergence for weight bytes saved, some at a
    time, and stays only if the mask as a whole keeps the budget: the upper bound of the mean divergence, in
    every domain. In the end the masks on the way are tested in their order on texts that the search did not
    look at, and the last one before the first that does not keep the budget there is taken.

    Args:
        meter: The loaded model.
        domains: Texts, at least two windows each.
        model: The model's name, for the report.
        calibration_sha256: Of the texts.
        budget: What it may cost.
        every: Logits are compared after every so many tokens, and after the last of each text.
        progress: Told (stage, done, all, what was found) after every part.
    """
    (built,) = frontier(
        meter,
        domains,
        model=model,
        calibration_sha256=calibration_sha256,
        budgets=[budget],
        every=every,
        progress=progress,
    )
    return built


def frontier(
    meter: Meter,
    domains: Sequence[Domain],
    *,
    model: str,
    calibration_sha256: bytes,
    budgets: Sequence[Budget],
    every: int = 4,
    progress: Tell = lambda *_: None,
) -> list[Built]:
    """As `build`, for several budgets in ascending order: each search goes on where the last one ended.

    Parts are put in order once, for the largest budget. What is returned first is what `build` finds for the
    first budget, except that it is not refused parts which only a larger budget makes promising.
    """
    started = time.monotonic()
    search = Search(meter, domains, every)
    ranked = rank(search, budgets[-1], progress)
    empty = meter.empty_mask()
    search.start_from(empty)
    steps = [Step(empty, [], search.searched(empty))]
    found = []
    for budget in budgets:
        extend(search, steps, ranked, budget, progress)
        chosen, held_out = held_back(search, steps, budget.kl)
        step = steps[chosen]
        report = MaskReport(
            model=model,
            budget_kl=budget.kl,
            parts=step.parts,
            searched=step.harms or search.searched(step.mask),
            held_out=held_out,
            steps_back=len(steps) - 1 - chosen,
            gain=gain_of(meter, step.mask),
            evaluations=search.evaluations,
            search_s=round(time.monotonic() - started, 1),
        )
        mask = step.mask.measured(msgspec.json.encode(report).decode(), calibration_sha256)
        found.append(Built(mask, report, list(steps)))
    return found


def gain_of(meter: Meter, mask: Mask) -> Gain:
    """What a mask saves, by loading the model with it."""
    full, full_bytes = meter.parts(), meter.weight_bytes
    left, left_bytes = meter.compiled(mask)
    read_besides = meter.token_bytes - sum(attention + mlp for *_, attention, mlp in full)
    return Gain(
        weight_bytes=left_bytes,
        weight_bytes_full=full_bytes,
        token_bytes=read_besides + sum(attention + mlp for *_, attention, mlp in left),
        token_bytes_full=meter.token_bytes,
        kv_token_bytes=kv_bytes(left),
        kv_token_bytes_full=kv_bytes(full),
    )
