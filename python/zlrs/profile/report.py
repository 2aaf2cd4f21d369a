"""What was measured of a mask, kept in its file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import msgspec
from msgspec import Meta

from zlrs.errors import ConfigurationError
from zlrs.profile.harm import DomainHarm  # noqa: TC001 - msgspec reads it when it decodes
from zlrs.profile.spot import SpotCheck  # noqa: TC001 - msgspec reads it when it decodes

if TYPE_CHECKING:
    from zlrs._core import Mask


BYTES_LIMIT = 1 << 60
Left = Annotated[int, Meta(ge=0, le=BYTES_LIMIT)]
Whole = Annotated[int, Meta(ge=1, le=BYTES_LIMIT)]
"""Bytes that shares are taken of. A file may say anything, and is refused where there is no share."""


class Gain(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a mask saves.

    Attributes:
        weight_bytes: Packed weights of the masked model.
        weight_bytes_full: Packed weights of the full model.
        token_bytes: Weights read for one decoded token, the head included.
        token_bytes_full: The same for the full model.
        kv_token_bytes: Keys and values of one token.
        kv_token_bytes_full: The same for the full model.
        tokens_s: Decoded tokens a second, of one answer; 0 where it was not measured.
        tokens_s_full: The same for the full model, asked in turns with it.
    """

    weight_bytes: Left
    weight_bytes_full: Whole
    token_bytes: Left
    token_bytes_full: Whole
    kv_token_bytes: Left
    kv_token_bytes_full: Whole
    tokens_s: Annotated[float, Meta(ge=0)] = 0.0
    tokens_s_full: Annotated[float, Meta(ge=0)] = 0.0


class MaskReport(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What was measured when a mask was made.

    Attributes:
        model: The model's name.
        budget_kl: The mean divergence that no domain may exceed, upper bound, in nats.
        parts: What is left out, in the order in which it was.
        searched: The loss on the texts that the search looked at.
        held_out: The loss on texts that it did not look at.
        steps_back: Parts that were put back because the held-out texts refused them, or fewer than them.
        gain: What is saved.
        evaluations: How often the model was run over texts.
        spot_checks: Tasks with known answers, solved by both.
        search_s: How long the search took, in seconds; 0 where it was not noted.
        draft_vocabulary: Tokens to guess with it, for a mask made to draft with; else 0.
    """

    model: str
    budget_kl: float
    parts: list[str]
    searched: list[DomainHarm]
    held_out: list[DomainHarm]
    steps_back: int
    gain: Gain
    evaluations: int
    search_s: float = 0.0
    draft_vocabulary: int = 0
    spot_checks: list[SpotCheck] = []


def confidence_of(report: MaskReport) -> float:
    """How sure it is that the masked model chooses the full model's token, 0 … 1.

    1 less the upper bound (95 %) of other first choices on held-out texts, of the domain where it is largest.
    """
    return 1 - max((harm.top1_upper for harm in report.held_out), default=1.0)


def report_of(mask: Mask) -> MaskReport | None:
    """What was measured; `None` for a mask that was not.

    Raises:
        ConfigurationError: The report in the file is not one of ours.
    """
    if mask.report == "{}":
        return None
    try:
        return msgspec.json.decode(mask.report.encode(), type=MaskReport)
    except msgspec.DecodeError as error:
        raise ConfigurationError(f"the mask's report cannot be read: {error}") from error
