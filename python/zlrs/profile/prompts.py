"""The profile of a prompt library: which parts each prompt needs, and what follows from that."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING

import msgspec

from zlrs.errors import InvalidRequestError
from zlrs.profile.domains import Domain
from zlrs.profile.harm import harm_of
from zlrs.profile.parts import Kind, Part, candidates, without

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zlrs._core import Mask, Meter
    from zlrs.profile.search import Tell

QUIET_KL = 0.001
"""A part without which a prompt's divergence stays below this, in nats, is quiet in it."""
TOP_PARTS = 5
DEMANDING = 1.5
"""A prompt that needs so many times the median number of parts is called demanding."""
EXCERPT = 60
LEAST_TOKENS = 8


class PartShare(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One part in one prompt.

    Attributes:
        part: Which.
        kl: Mean divergence without it, in nats.
    """

    part: str
    kl: float


class PromptProfile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One prompt.

    Attributes:
        prompt: Its beginning.
        tokens: Tokens that were computed: its first ones, up to the window.
        cut: Whether it has more.
        needed: Parts that are not quiet in it.
        quiet: Parts that are.
        strongest: The parts it needs most.
        kl: Of every part, in the order of the library's `parts`.
        mask_kl: Mean divergence with the mask that was given; absent without one.
        advice: What to do with it; empty where it is like the others.
    """

    prompt: str
    tokens: int
    cut: bool
    needed: int
    quiet: int
    strongest: list[PartShare]
    kl: list[float]
    advice: list[str]
    mask_kl: float | None = None


class LibraryProfile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A prompt library.

    Attributes:
        model: The model's name.
        weights_sha256: Of the file.
        quiet_kl: Below this divergence a part is quiet, in nats.
        parts: Every part that was left out alone.
        quiet_everywhere: Parts that are quiet in every prompt: what a mask for this library may begin with.
        prompts: By prompt.
        advice: For the library as a whole.
    """

    model: str
    weights_sha256: str
    quiet_kl: float
    parts: list[str]
    quiet_everywhere: list[str]
    prompts: list[PromptProfile]
    advice: list[str]


def profile_prompts(
    meter: Meter,
    prompts: Sequence[str],
    *,
    model: str,
    window_tokens: int,
    every: int,
    kinds: Sequence[Kind] = ("attention", "mlp"),
    mask: Mask | None = None,
    budget_kl: float = 0.01,
    progress: Tell = lambda *_: None,
) -> LibraryProfile:
    """Leave every part out of every prompt. Runs the model over all prompts once a part, from its layer on.

    Args:
        meter: The loaded model.
        prompts: At least 8 tokens each.
        model: Its name.
        window_tokens: Of a longer prompt so many tokens are computed.
        every: Logits are compared after every so many tokens, and after the last of each prompt.
        kinds: Parts to leave out.
        mask: A mask to measure on every prompt.
        budget_kl: What a mask may cost a prompt, in nats.
        progress: Told (stage, done, all, what).

    Raises:
        InvalidRequestError: A prompt is shorter than 8 tokens.
    """
    texts = [_window(meter, index, prompt, window_tokens) for index, prompt in enumerate(prompts)]
    meter.reference([domain.windows[0] for domain in texts], every)
    shapes, empty = meter.parts(), meter.empty_mask()
    places = list(range(len(texts)))
    meter.trace(empty, places)
    parts = candidates(shapes, kinds)
    losses: list[list[float]] = [[] for _ in texts]
    for done, part in enumerate(parts, start=1):
        for place, value in enumerate(_means(meter, without(empty, part, shapes), places)):
            losses[place].append(value)
        progress("parts", done, len(parts), str(part))
    masked = [None] * len(texts) if mask is None else _means(meter, mask, places)
    needed = [sum(kl >= QUIET_KL for kl in loss) for loss in losses]
    typical = statistics.median(needed)
    entries = [
        _entry(
            parts, prompt, text, loss, mask_kl, typical=typical, budget_kl=budget_kl, cut=text.name == "cut"
        )
        for prompt, text, loss, mask_kl in zip(prompts, texts, losses, masked, strict=True)
    ]
    everywhere = [
        str(part) for index, part in enumerate(parts) if all(loss[index] < QUIET_KL for loss in losses)
    ]
    return LibraryProfile(
        model=model,
        weights_sha256=empty.weights_sha256,
        quiet_kl=QUIET_KL,
        parts=[str(part) for part in parts],
        quiet_everywhere=everywhere,
        prompts=entries,
        advice=_advice(entries, everywhere, len(parts)),
    )


def _window(meter: Meter, index: int, prompt: str, window_tokens: int) -> Domain:
    ids = meter.encode(prompt)
    if len(ids) < LEAST_TOKENS:
        raise InvalidRequestError(
            f"prompt {index + 1} has {len(ids)} tokens; at least {LEAST_TOKENS} are needed to say anything"
        )
    return Domain("cut" if len(ids) > window_tokens else "whole", [ids[:window_tokens]])


def _means(meter: Meter, mask: Mask, places: Sequence[int]) -> list[float]:
    """Mean divergence by prompt."""
    return [harm_of("", [rows]).kl_mean for rows in meter.measure(mask, places)]


def _entry(
    parts: Sequence[Part],
    prompt: str,
    text: Domain,
    loss: Sequence[float],
    mask_kl: float | None,
    *,
    typical: float,
    budget_kl: float,
    cut: bool,
) -> PromptProfile:
    needed = sum(kl >= QUIET_KL for kl in loss)
    order = sorted(zip(loss, parts, strict=True), key=lambda pair: -pair[0])
    advice = []
    if mask_kl is not None and mask_kl > budget_kl:
        advice.append(
            f"the mask costs it {mask_kl:.4f} nats, more than {budget_kl:g}: ask it with X-ZLRS-Compute:"
            " exact, or build the mask with texts like it"
        )
    if needed > DEMANDING * typical:
        advice.append(
            f"it needs {needed} parts, the median prompt {typical:g}: it keeps a mask for the library small;"
            " keep it exact and leave it out of the mask's texts"
        )
    if cut:
        advice.append("only its beginning was looked at; raise --window-tokens")
    return PromptProfile(
        prompt=prompt[:EXCERPT],
        tokens=len(text.windows[0]),
        cut=cut,
        needed=needed,
        quiet=len(loss) - needed,
        strongest=[PartShare(part=str(part), kl=kl) for kl, part in order[:TOP_PARTS]],
        kl=list(loss),
        advice=advice,
        mask_kl=mask_kl,
    )


def _advice(entries: Sequence[PromptProfile], everywhere: Sequence[str], parts: int) -> list[str]:
    advice = []
    if everywhere:
        advice.append(
            f"{len(everywhere)} of {parts} parts are quiet in every prompt: build a mask with these prompts"
            " as its texts (`zlrs mask build --data`), which measures them together"
        )
    else:
        advice.append(
            f"none of {parts} parts is quiet in every prompt: a mask for the whole library costs all of them"
        )
    demanding = sum(bool(entry.advice) for entry in entries)
    if demanding:
        advice.append(f"{demanding} of {len(entries)} prompts have advice of their own")
    return advice
