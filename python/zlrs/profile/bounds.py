"""Upper confidence bounds of what was measured on a sample."""

from __future__ import annotations

import math
import random
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

CONFIDENCE = 0.95
RESAMPLES = 500


def proportion_upper(events: int, trials: int, confidence: float = CONFIDENCE) -> float:
    """The exact one-sided upper bound of a proportion (Clopper and Pearson 1934). O(events) a step.

    Args:
        events: How often it happened, 0 … trials.
        trials: How often it could have, 1 for every one that is independent of the others.
        confidence: Share of samples in which the bound holds, 0 … 1.

    Returns:
        0 … 1; 1 without trials.
    """
    if trials == 0 or events >= trials:
        return 1.0
    low, high = events / trials, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        if _at_most(events, trials, middle) > 1 - confidence:
            low = middle
        else:
            high = middle
    return high


def _at_most(events: int, trials: int, p: float) -> float:
    """Probability of at most so many events."""
    if p <= 0:
        return 1.0
    if p >= 1:
        return 0.0
    logs = [
        math.lgamma(trials + 1)
        - math.lgamma(k + 1)
        - math.lgamma(trials - k + 1)
        + k * math.log(p)
        + (trials - k) * math.log1p(-p)
        for k in range(events + 1)
    ]
    return math.fsum(math.exp(log) for log in logs)


def bootstrap_upper(
    groups: Sequence[Sequence[float]], confidence: float = CONFIDENCE, seed: int = 1
) -> float:
    """An upper bound of a mean: a quantile of the means of samples drawn from the sample (Efron 1979).

    Values of one text are not independent, so that whole texts are drawn, and values within them. With few
    texts the bound is rough; it is never below the mean itself.

    Args:
        groups: Values by text.
        confidence: The quantile.
        seed: The same seed draws the same samples.
    """
    values = [value for group in groups for value in group]
    if not values:
        return math.inf
    draw = random.Random(seed)  # noqa: S311 - resampling, not a secret
    means = []
    filled = [group for group in groups if group]
    for _ in range(RESAMPLES):
        chosen: list[float] = []
        for group in draw.choices(filled, k=len(filled)):
            chosen.extend(draw.choices(group, k=len(group)))
        means.append(math.fsum(chosen) / len(chosen))
    means.sort()
    upper = means[min(len(means) - 1, math.ceil(confidence * len(means)) - 1)]
    return max(upper, math.fsum(values) / len(values))
