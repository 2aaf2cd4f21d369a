"""The search for a mask: greedy, by real ablation, under a budget that holds in every domain."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import msgspec

from zlrs.profile.harm import harm_of
from zlrs.profile.parts import Kind, Part, candidates, kv_bytes, weight_bytes, without
from zlrs.profile.report import Gain, MaskReport

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from zlrs._core import Mask, Meter
    from zlrs.profile.domains import Domain
    from zlrs.profile.harm import DomainHarm

HOPELESS = 30.0
"""A part whose absence alone costs so many budgets is not tried with others."""


class Budget(NamedTuple):
    """What a mask may cost and how long the search goes on.

    Attributes:
        kl: The mean divergence that no domain's upper bound may exceed, in nats.
        rejections: The search ends after so many parts in a row were refused.
        kinds: Parts to try.
    """

    kl: float
    rejections: int = 6
    kinds: tuple[Kind, ...] = ("attention", "mlp", "group")


class Step(NamedTuple):
    """A mask on the way: what it leaves out, and what it costs on the texts of the search."""

    mask: Mask
    parts: list[str]
    harms: list[DomainHarm]


class Built(NamedTuple):
    """What a search found."""

    mask: Mask
    report: MaskReport
    steps: list[Step]
    """Every mask on the way, the empty one first: the curve of harm against saving."""


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
        observed = meter.observe([index for indices in self._searched.values() for index in indices])
        self._means = [(_mean(layer["attention"]), _mean(layer["mlp"])) for layer in observed]

    def searched(self, mask: Mask) -> list[DomainHarm]:
        """What the mask costs on the texts of the search."""
        return self._harms(mask, self._searched)

    def held_out(self, mask: Mask) -> list[DomainHarm]:
        """What it costs on the others."""
        return self._harms(mask, self._held_out)

    def first(self, mask: Mask) -> list[DomainHarm]:
        """What it costs on one text of each domain: a quick look."""
        return self._harms(mask, {name: indices[:1] for name, indices in self._searched.items()})

    def _harms(self, mask: Mask, places: dict[str, list[int]]) -> list[DomainHarm]:
        self.evaluations += 1
        rows = iter(self.meter.measure(mask, [index for indices in places.values() for index in indices]))
        return [harm_of(name, [next(rows) for _ in indices]) for name, indices in places.items()]

    def add(self, mask: Mask, part: Part, *, constant: bool) -> Mask:
        """The mask without one part more, whose mean stands in for it if `constant`."""
        means = self._means[part.layer] if constant else (None, None)
        return without(mask, part, self.shapes, means)


def build(
    meter: Meter,
    domains: Sequence[Domain],
    *,
    model: str,
    calibration_sha256: bytes,
    budget: Budget,
    every: int = 4,
    progress: Callable[[str], None] = lambda _: None,
) -> Built:
    """Search for a mask.

    First each part is left out alone, once with nothing and, for blocks, once with its mean in its place;
    the better of the two is kept. Then parts are added in the order of divergence for weight bytes saved, and
    each stays only if the mask as a whole keeps the budget: the upper bound of the mean divergence, in every
    domain. In the end the mask must keep it on texts that the search did not look at; what was added last is
    put back until it does.

    Args:
        meter: The loaded model.
        domains: Texts, at least two windows each.
        model: The model's name, for the report.
        calibration_sha256: Of the texts.
        budget: What it may cost.
        every: Logits are compared after every so many tokens.
        progress: Told what is going on, a line at a time.
    """
    search = Search(meter, domains, every)
    empty = meter.empty_mask()
    ranked = _rank(search, empty, budget, progress)
    steps = [Step(empty, [], search.searched(empty))]
    refused = 0
    for part, constant in ranked:
        if refused >= budget.rejections:
            break
        mask = search.add(steps[-1].mask, part, constant=constant)
        if all(attention or all(heads) for attention, _, heads, *_ in mask.layers()):
            continue  # the model would have no attention left
        harms = search.searched(mask)
        worst = max(harm.kl_upper for harm in harms)
        fits = worst <= budget.kl
        progress(f"{'without' if fits else 'kept'} {part}: divergence up to {worst:.5f} of {budget.kl:g}")
        refused = 0 if fits else refused + 1
        if fits:
            name = f"{part} (mean in its place)" if constant else str(part)
            steps.append(Step(mask, [*steps[-1].parts, name], harms))
    chosen = len(steps) - 1
    held_out = search.held_out(steps[chosen].mask)
    while chosen and max(harm.kl_upper for harm in held_out) > budget.kl:
        chosen -= 1
        held_out = search.held_out(steps[chosen].mask)
    step = steps[chosen]
    report = MaskReport(
        model=model,
        budget_kl=budget.kl,
        parts=step.parts,
        searched=step.harms,
        held_out=held_out,
        steps_back=len(steps) - 1 - chosen,
        gain=gain_of(meter, step.mask),
        evaluations=search.evaluations,
    )
    mask = step.mask.measured(_json(report), calibration_sha256)
    return Built(mask, report, steps)


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


def _rank(
    search: Search, empty: Mask, budget: Budget, progress: Callable[[str], None]
) -> list[tuple[Part, bool]]:
    """Parts in the order in which they are tried, and whether the mean stands in."""
    ranked = []
    parts = candidates(search.shapes, budget.kinds)
    for done, part in enumerate(parts):
        costs = []
        for constant in (False, True):
            if constant and part.kind in {"group", "head"}:
                continue
            mask = search.add(empty, part, constant=constant)
            if all(attention or all(heads) for attention, _, heads, *_ in mask.layers()):
                continue
            costs.append((max(harm.kl_mean for harm in search.first(mask)), constant))
        if not costs:
            continue
        cost, constant = min(costs)
        progress(f"alone ({done + 1} of {len(parts)}): {part}: divergence {cost:.5f}")
        if cost <= HOPELESS * budget.kl:
            ranked.append((cost / max(weight_bytes(part, search.shapes), 1), part, constant))
    return [(part, constant) for _, part, constant in sorted(ranked)]


def _mean(block: object) -> list[float] | None:
    mean = block.get("mean") if isinstance(block, dict) else None
    return [float(value) for value in mean] if isinstance(mean, list) else None


def _json(report: MaskReport) -> str:
    return msgspec.json.encode(report).decode()
