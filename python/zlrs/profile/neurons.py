"""The choice of thresholds under which the neurons of gated MLPs count for nothing.

A neuron of a gated MLP adds gate · up · down; where the gate, after its activation, lets hardly anything
through, its row of up and its column of down need not be read. CATS (Lee et al., 2024) and TEAL (Liu et al.,
2024) use such sparsity; here there is one threshold a layer, from the share of gates that lie below it, and
the largest share that keeps a bound.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import msgspec

from zlrs import _core
from zlrs.neurons import NeuronReport, Reach
from zlrs.profile.harm import harm_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from zlrs.profile.domains import Domain
    from zlrs.profile.harm import DomainHarm

SHARES = (0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.6)
"""Shares of gates that are tried, from careful to daring."""
UP_SHARE = 1 / 3
"""Of an MLP's weights, those of the up projection."""


class Level(NamedTuple):
    """One share: its thresholds, what they cost on held-out texts, and what they reach there."""

    share: float
    thresholds: list[float]
    harms: list[DomainHarm]
    reach: Reach
    saved: float

    def upper(self) -> float:
        """The largest upper bound of other first choices of any domain."""
        return max(harm.top1_upper for harm in self.harms)


def levels(
    meter: _core.Meter,
    domains: Sequence[Domain],
    *,
    every: int = 1,
    shares: Sequence[float] = SHARES,
    mask: _core.Mask | None = None,
    progress: Callable[[str], None] = lambda _: None,
) -> list[Level]:
    """Measure every share on held-out texts: thresholds come from every second window, harm from the others.

    Args:
        meter: The loaded model.
        domains: Texts, at least two windows each.
        every: Logits are compared after every so many tokens, and after the last of each text.
        shares: Of gates under the threshold.
        mask: What will be left out of the load beside them: harm is that of the neurons, from the model
            without the mask's parts.
        progress: Told what is going on, a line at a time.
    """
    windows = [window for domain in domains for window in domain.windows]
    if mask is not None:
        meter.leave_out(mask)
    meter.reference(windows, every)
    calibration = list(range(0, len(windows), 2))
    held_out: dict[str, list[int]] = {}
    start = 0
    for domain in domains:
        indices = range(start, start + len(domain.windows))
        held_out[domain.name] = [index for index in indices if index % 2]
        start += len(domain.windows)
    places = [index for indices in held_out.values() for index in indices]
    mlp_share = _mlp_share(meter, mask)
    found = []
    for share, thresholds in zip(shares, meter.gate_thresholds(calibration, shares), strict=True):
        rows = iter(meter.measure_neurons(thresholds, places))
        harms = [harm_of(name, [next(rows) for _ in indices]) for name, indices in held_out.items()]
        reach = Reach(**dict(zip(Reach.__struct_fields__, meter.gate_reach(thresholds, places), strict=True)))
        found.append(Level(share, thresholds, harms, reach, mlp_share * UP_SHARE * reach.strips))
        progress(
            f"{reach.neurons:.1%} of the neurons, {reach.strips:.2%} with their strip: other first choice"
            f" up to {found[-1].upper():.2%}, divergence {max(harm.kl_mean for harm in harms):.4f}"
        )
    return found


def _mlp_share(meter: _core.Meter, mask: _core.Mask | None) -> float:
    """Of the weights read for a token, those of the MLPs."""
    full = meter.parts()
    left = full if mask is None else meter.compiled(mask)[0]
    blocks, blocks_full = (sum(attention + mlp for *_, attention, mlp in parts) for parts in (left, full))
    return sum(mlp for *_, mlp in left) / (meter.token_bytes - blocks_full + blocks)


def choose(
    found: Sequence[Level],
    *,
    model: str,
    weights_sha256: bytes,
    calibration_sha256: bytes,
    bound: float,
    mask: _core.Mask | None = None,
) -> _core.Neurons:
    """The thresholds of the largest share that keeps the bound, as every smaller one does; else none.

    Args:
        found: From careful to daring.
        model: The model's name, for the report.
        weights_sha256: Of the model file.
        calibration_sha256: Of the texts.
        bound: Of other first choices in any domain, upper bound (95 %).
        mask: The mask that they were measured with; they are then for a load with it, and no other.
    """
    kept: list[Level] = []
    for level in found:
        if level.upper() > bound:
            break
        kept.append(level)
    # Without one that keeps the bound the report has what the most careful one cost.
    level = kept[-1] if kept else found[0]
    report = NeuronReport(
        model=model,
        bound=bound,
        share=level.share if kept else 0.0,
        held_out=level.harms,
        reach=level.reach,
        up_bytes_saved=level.saved if kept else 0.0,
    )
    thresholds = level.thresholds if kept else [-1.0] * len(level.thresholds)
    text = msgspec.json.encode(report).decode()
    return _core.Neurons(weights_sha256, calibration_sha256, thresholds, text, mask)
