"""The search for parts to leave out: greedy, by real ablation, under a budget that holds in every domain."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from zlrs.profile.harm import harm_of
from zlrs.profile.parts import Kind, Part, candidates, weight_bytes, without

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from zlrs._core import Mask, Meter
    from zlrs.profile.domains import Domain
    from zlrs.profile.harm import DomainHarm

    Tell = Callable[[str, int, int, str], None]

HOPELESS = 30.0
"""A part whose absence alone costs so many budgets is not tried with others."""


class Budget(NamedTuple):
    """What a mask may cost and how long the search goes on.

    Attributes:
        kl: The mean divergence that no domain's upper bound may exceed, in nats.
        rejections: The search ends after so many parts in a row were refused.
        kinds: Parts to try.
        screening_windows: Texts of each domain on which parts are put in order.
    """

    kl: float
    rejections: int = 6
    kinds: tuple[Kind, ...] = ("attention", "mlp", "group")
    screening_windows: int = 1


class Step(NamedTuple):
    """A mask on the way: what it leaves out, and what it costs on the texts of the search."""

    mask: Mask
    parts: list[str]
    harms: list[DomainHarm]


class Search:
    """One search over one model."""

    def __init__(self, meter: Meter, domains: Sequence[Domain], every: int) -> None:
        """Compute all texts with the full model.

        Args:
            meter: The loaded model.
            domains: Texts; every second window is kept from the search.
            every: Logits are compared after every so many tokens.
        """
        windows = [window for domain in domains for window in domain.windows]
        meter.reference(windows, every)
        self.meter = meter
        self.shapes = meter.parts()
        self.evaluations = 1
        self._searched: dict[str, list[int]] = {}
        self._held_out: dict[str, list[int]] = {}
        start = 0
        for domain in domains:
            indices = list(range(start, start + len(domain.windows)))
            self._searched[domain.name] = indices[::2]
            self._held_out[domain.name] = indices[1::2]
            start += len(indices)
        observed = meter.observe(self._all_searched())
        self._means = [(_mean(layer["attention"]), _mean(layer["mlp"])) for layer in observed]

    def start_from(self, mask: Mask) -> None:
        """From now on masks that differ from this one in later layers are computed from there on."""
        self.meter.trace(mask, self._all_searched())

    def _all_searched(self) -> list[int]:
        return [index for indices in self._searched.values() for index in indices]

    def searched(self, mask: Mask) -> list[DomainHarm]:
        """What the mask costs on the texts of the search."""
        return self._harms(mask, self._searched)

    def held_out(self, mask: Mask) -> list[DomainHarm]:
        """What it costs on the others."""
        return self._harms(mask, self._held_out)

    def mean_of(self, mask: Mask, windows: int) -> float:
        """The mean divergence on `windows` texts of each domain, of the domain where it is largest."""
        places = [indices[:windows] for indices in self._searched.values()]
        self.evaluations += 1
        rows = iter(self.meter.measure(mask, [index for indices in places for index in indices]))
        means = []
        for indices in places:
            values = [row[0] for _ in indices for row in next(rows)]
            means.append(math.fsum(values) / max(len(values), 1))
        return max(means)

    def _harms(self, mask: Mask, places: dict[str, list[int]]) -> list[DomainHarm]:
        self.evaluations += 1
        rows = iter(self.meter.measure(mask, [index for indices in places.values() for index in indices]))
        return [harm_of(name, [next(rows) for _ in indices]) for name, indices in places.items()]

    def add(self, mask: Mask, part: Part, *, constant: bool) -> Mask:
        """The mask without one part more, whose mean stands in for it if `constant`."""
        means = self._means[part.layer] if constant else (None, None)
        return without(mask, part, self.shapes, means)


def rank(search: Search, budget: Budget, progress: Tell) -> list[tuple[Part, bool]]:
    """Parts by divergence for bytes saved, as they are tried, and whether the mean stands in."""
    empty = search.meter.empty_mask()
    search.start_from(empty)
    promising: list[tuple[float, Part, bool]] = []
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
        if not costs:
            continue
        cost, constant = min(costs)
        progress("alone", done + 1, len(parts), f"{part}: divergence {cost:.5f}")
        if cost <= HOPELESS * budget.kl:
            promising.append((cost / max(weight_bytes(part, search.shapes), 1), part, constant))
    return [(part, constant) for _, part, constant in sorted(promising)]


def extend(
    search: Search, steps: list[Step], ranked: Sequence[tuple[Part, bool]], budget: Budget, progress: Tell
) -> None:
    """Go on from the last of `steps`: add parts in their order as long as the whole mask keeps the budget."""
    refused = 0
    search.start_from(steps[-1].mask)
    for done, (part, constant) in enumerate(ranked):
        if refused >= budget.rejections:
            break
        before = steps[-1].mask
        mask = search.add(before, part, constant=constant)
        if _is_out(before, part) or _is_deaf(mask):
            continue
        harms = search.searched(mask)
        worst = max(harm.kl_upper for harm in harms)
        fits = worst <= budget.kl
        refused = 0 if fits else refused + 1
        if fits:
            name = f"{part} (mean in its place)" if constant else str(part)
            steps.append(Step(mask, [*steps[-1].parts, name], harms))
            search.start_from(mask)
        what = f"{'without' if fits else 'kept'} {part}: divergence up to {worst:.5f} of {budget.kl:g}"
        progress("together", done + 1, len(ranked), what)


def held_back(search: Search, steps: Sequence[Step], kl: float) -> tuple[int, list[DomainHarm]]:
    """The last step that keeps a budget on the texts that the search did not look at, and its harm there."""
    chosen = len(steps) - 1
    harms = search.held_out(steps[chosen].mask)
    while chosen and max(harm.kl_upper for harm in harms) > kl:
        chosen -= 1
        harms = search.held_out(steps[chosen].mask)
    return chosen, harms


def _is_out(mask: Mask, part: Part) -> bool:
    """Whether the mask leaves the part out already."""
    attention, mlp, heads, kv_heads, *_ = mask.layers()[part.layer]
    if part.kind == "group":
        size = len(heads) // kv_heads
        return attention or all(heads[part.number * size : (part.number + 1) * size])
    return {
        "layer": attention and mlp,
        "attention": attention,
        "mlp": mlp,
        "head": attention or (part.kind == "head" and heads[part.number]),
    }[part.kind]


def _is_deaf(mask: Mask) -> bool:
    """Whether no attention is left."""
    return all(attention or all(heads) for attention, _, heads, *_ in mask.layers())


def _mean(block: object) -> list[float] | None:
    mean = block.get("mean") if isinstance(block, dict) else None
    return [float(value) for value in mean] if isinstance(mean, list) else None
