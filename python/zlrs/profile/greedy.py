"""The search for parts to leave out: greedy, by real ablation, under a budget that holds in every domain."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from zlrs.profile.parts import Part, candidates, weight_bytes
from zlrs.profile.search import Step

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from zlrs._core import Mask
    from zlrs.profile.harm import DomainHarm
    from zlrs.profile.search import Budget, Search, Tell

FEASIBLE = 2.0
"""What costs more budgets than this alone, on the few texts it was looked at, is not tried."""

TOGETHER = 16
"""At most so many candidates are tried in one go."""

HELD_OUT_TESTS = 32
"""At most so many steps of a search are tested on held-out texts."""


class Candidate(NamedTuple):
    """Parts that are left out together.

    Attributes:
        parts: One part, or a query head of every KV group of a layer: only then do their weights vanish.
        constant: Their mean stands in for them.
        cost: Divergence alone; of several parts the sum of their own.
        saved_bytes: Of weights.
    """

    parts: tuple[Part, ...]
    constant: bool
    cost: float
    saved_bytes: float

    def __str__(self) -> str:
        name = " and ".join([str(self.parts[0]), *(str(part.number) for part in self.parts[1:])])
        return f"{name} (mean in its place)" if self.constant else name


def rank(search: Search, budget: Budget, progress: Tell) -> list[Candidate]:
    """Candidates by divergence for bytes saved, as they are tried. Leaves every part out alone first."""
    empty = search.meter.empty_mask()
    search.start_from(empty)
    alone: list[Candidate] = []
    parts = candidates(search.shapes, budget.kinds)
    for done, part in enumerate(parts):
        # Where a part adds much the same to every token, its mean does less harm than nothing.
        ways = (False,) if part.kind in {"group", "head"} else (False, True)
        masks = [(search.add(empty, part, constant=constant), constant) for constant in ways]
        costs = [
            (search.mean_of(mask, budget.screening_windows), constant)
            for mask, constant in masks
            if not _is_deaf(mask)
        ]
        if costs:
            cost, constant = min(costs)
            alone.append(Candidate((part,), constant, cost, weight_bytes(part, search.shapes)))
            progress("alone", done + 1, len(parts), f"{part}: divergence {cost:.5f}")
    heads = [one for one in alone if one.parts[0].kind == "head"]
    found = [one for one in alone if one.parts[0].kind != "head"] + list(_across_groups(search, heads))
    affordable = [one for one in found if one.cost <= FEASIBLE * budget.kl]
    return sorted(affordable, key=lambda one: (one.cost / max(one.saved_bytes, 1), one.parts))


def _across_groups(search: Search, heads: Sequence[Candidate]) -> Iterable[Candidate]:
    """Of every layer the quietest head of each group together, then the next ones."""
    for layer, (query_heads, kv_heads, *_) in enumerate(search.shapes):
        own = [one for one in heads if one.parts[0].layer == layer]
        size = query_heads // max(kv_heads, 1)
        groups = [
            sorted((one for one in own if one.parts[0].number // size == group), key=lambda one: one.cost)
            for group in range(kv_heads)
        ]
        for several in zip(*groups, strict=True) if own else ():
            yield Candidate(
                tuple(one.parts[0] for one in several),
                constant=False,
                cost=sum(one.cost for one in several),
                saved_bytes=sum(one.saved_bytes for one in several),
            )


def extend(
    search: Search, steps: list[Step], ranked: Sequence[Candidate], budget: Budget, progress: Tell
) -> None:
    """Go on from the last of `steps`: add candidates in order as long as the whole mask keeps the budget.

    As long as they fit, twice as many are tried in one go; when they do not, half as many.
    """
    search.start_from(steps[-1].mask)
    waiting = [one for one in ranked if one.cost <= FEASIBLE * budget.kl]
    waiting = [one for one in waiting if not all(_is_out(steps[-1].mask, part) for part in one.parts)]
    place, size, refused = 0, 1, 0
    while place < len(waiting) and refused < budget.rejections:
        batch = waiting[place : place + size]
        masks = [steps[-1].mask]
        for one in batch:
            masks.append(_without(search, masks[-1], one))
        mask = masks[-1]
        harms = None if _is_deaf(mask) else search.searched(mask)
        worst = max((harm.kl_upper for harm in harms), default=0.0) if harms else float("inf")
        if harms and worst <= budget.kl:
            for one, partial in zip(batch, masks[1:], strict=True):
                measured = harms if partial is mask else None
                steps.append(Step(partial, [*steps[-1].parts, str(one)], measured))
            search.start_from(mask)
            place, size, refused = place + len(batch), min(2 * size, TOGETHER), 0
        elif len(batch) > 1:
            size = len(batch) // 2
        else:
            place, refused = place + 1, refused + 1
        what = f"{len(steps[-1].parts)} out; with {batch[-1]} up to {worst:.5f} of {budget.kl:g}"
        progress("together", place, len(waiting), what)


def held_back(search: Search, steps: Sequence[Step], kl: float) -> tuple[int, list[DomainHarm]]:
    """The last step that keeps a budget on the texts that the search did not look at, and its harm there.

    Steps are tested from careful to daring up to the first that does not keep it. In such a fixed sequence
    the budget holds for the step that is taken as surely as after a single test (Angelopoulos et al., "Learn
    then Test", 2021); were steps tried until one passes, each try would be a chance to pass by luck. Of many
    steps only some are tested, evenly spread. The first one, which leaves nothing out, always counts.
    """
    last = len(steps) - 1
    places = sorted({round(last * test / HELD_OUT_TESTS) for test in range(HELD_OUT_TESTS + 1)})
    chosen, harms = 0, search.held_out(steps[0].mask)
    for place in places[1:]:
        measured = search.held_out(steps[place].mask)
        if max(harm.kl_upper for harm in measured) > kl:
            break
        chosen, harms = place, measured
    return chosen, harms


def _without(search: Search, mask: Mask, one: Candidate) -> Mask:
    """The mask without the parts of a candidate more."""
    for part in (part for part in one.parts if not _is_out(mask, part)):
        mask = search.add(mask, part, constant=one.constant)
    return mask


def _is_out(mask: Mask, part: Part) -> bool:
    """Whether the mask leaves the part out already."""
    attention, mlp, heads, kv_heads, *_ = mask.layers()[part.layer]
    if part.kind in {"group", "head"}:
        size = len(heads) // kv_heads if part.kind == "group" else 1
        return attention or all(heads[part.number * size : (part.number + 1) * size])
    return {"layer": attention and mlp, "attention": attention, "mlp": mlp}[part.kind]


def _is_deaf(mask: Mask) -> bool:
    """Whether no attention is left."""
    return all(attention or all(heads) for attention, _, heads, *_ in mask.layers())
