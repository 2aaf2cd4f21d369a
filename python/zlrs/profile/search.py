"""Texts, a model and a budget: what the search for a mask measures with."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from zlrs.profile.harm import harm_of
from zlrs.profile.parts import Kind, Part, without

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from zlrs._core import Mask, Meter
    from zlrs.profile.domains import Domain
    from zlrs.profile.harm import DomainHarm

    Tell = Callable[[str, int, int, str], None]


class Budget(NamedTuple):
    """What a mask may cost and how long the search goes on.

    Attributes:
        kl: The mean divergence that no domain's upper bound may exceed, in nats.
        rejections: The search ends after so many parts in a row were refused.
        kinds: Parts to try.
        screening_windows: Texts of each domain on which parts are put in order.
    """

    kl: float
    rejections: int = 12
    kinds: tuple[Kind, ...] = ("attention", "mlp", "group", "head")
    screening_windows: int = 2


class Step(NamedTuple):
    """A mask on the way: what it leaves out, and what it costs on the texts of the search.

    Of parts that were added in one go only the last step was measured; the others have no harms.
    """

    mask: Mask
    parts: list[str]
    harms: list[DomainHarm] | None


class Search:
    """One search over one model."""

    def __init__(self, meter: Meter, domains: Sequence[Domain], every: int) -> None:
        """Compute all texts with the full model.

        Args:
            meter: The loaded model.
            domains: Texts; every second window is kept from the search.
            every: Logits are compared after every so many tokens, and after the last of each text.
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


def _mean(block: object) -> list[float] | None:
    mean = block.get("mean") if isinstance(block, dict) else None
    return [float(value) for value in mean] if isinstance(mean, list) else None
