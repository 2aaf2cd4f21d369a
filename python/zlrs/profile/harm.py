"""What is lost without some parts, in figures."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import msgspec

from zlrs.errors import InvalidRequestError
from zlrs.profile.bounds import bootstrap_upper, proportion_upper

if TYPE_CHECKING:
    from collections.abc import Sequence

Row = tuple[float, bool, float, bool]
"""Divergence, whether the likeliest token is another, change of the loss, whether no logit changed a bit."""


class DomainHarm(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The loss on texts of one kind; divergences are Kullback-Leibler, of the masked from the full model.

    Attributes:
        domain: Which texts.
        rows: Tokens after which the two were compared.
        kl_mean: Mean divergence.
        kl_upper: Its upper bound, 95 % (bootstrap over texts).
        kl_p99: The 99th percentile of the rows.
        top1_disagreement: Share of rows whose likeliest token is another.
        top1_upper: Its upper bound, 95 % (Clopper-Pearson, rows taken as independent).
        perplexity_ratio: Perplexity of the text by the masked model over that by the full one.
        identical: Share of rows whose logits are all the same bits.
    """

    domain: str
    rows: int
    kl_mean: float
    kl_upper: float
    kl_p99: float
    top1_disagreement: float
    top1_upper: float
    perplexity_ratio: float
    identical: float


def harm_of(domain: str, windows: Sequence[Sequence[Row]]) -> DomainHarm:
    """Sum up the rows of some texts of a domain. O(rows · resamples).

    Raises:
        InvalidRequestError: There is no row: of nothing nothing is known, not that it is harmless.
    """
    rows = [row for window in windows for row in window]
    if not rows:
        raise InvalidRequestError(f"no row of {domain or 'the text'} was compared; at least one is needed")
    count = len(rows)
    divergences = sorted(row[0] for row in rows)
    differing = sum(row[1] for row in rows)
    return DomainHarm(
        domain=domain,
        rows=count,
        kl_mean=math.fsum(divergences) / count,
        kl_upper=bootstrap_upper([[row[0] for row in window] for window in windows]),
        kl_p99=divergences[math.ceil(0.99 * count) - 1],
        top1_disagreement=differing / count,
        top1_upper=proportion_upper(differing, count),
        perplexity_ratio=math.exp(math.fsum(row[2] for row in rows) / count),
        identical=sum(row[3] for row in rows) / count,
    )
