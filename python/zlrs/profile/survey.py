"""The profile: what every part adds, and what is lost without it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import msgspec

from zlrs.profile.harm import harm_of
from zlrs.profile.parts import Kind, Part, candidates, weight_bytes, without

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from zlrs._core import Meter
    from zlrs.profile.domains import Domain


class PartProfile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One part on texts of one kind.

    Attributes:
        domain: Which texts.
        output_norm: Mean length of what it adds to the hidden state; of a head its result before the output
            projection; of a group the sum of its heads'.
        relative_norm: That length over the hidden state's; of a head over the mean of the layer's heads.
        peak: Largest absolute value in it; 0 says that it never added anything.
        kl: Mean divergence of the logits without it, in nats; absent where it was not ablated.
        identical: Share of rows whose logits without it are the same bits; absent where it was not ablated.
    """

    domain: str
    output_norm: float
    relative_norm: float
    peak: float
    kl: float | None = None
    identical: float | None = None


class PartEntry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One part over all domains."""

    layer: int
    kind: Kind
    index: int
    weight_bytes: int
    domains: list[PartProfile]


class Influence(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Block influence of a layer: mean of 1 - cos(hidden state before it, after it), by domain."""

    layer: int
    domains: dict[str, float]


class Profile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A model's profile.

    Attributes:
        model: The model's name.
        weights_sha256: Of the file.
        calibration_sha256: Of the texts.
        tokens: Tokens computed, by domain.
        rows: Tokens after which logits were compared, by domain.
        layers: Number of layers.
        influence: Block influence.
        parts: Every part.
        never_contribute: Parts that added nothing but zeros in every domain, or whose absence left every
            logit of every compared row the same, bit for bit.
    """

    model: str
    weights_sha256: str
    calibration_sha256: str
    tokens: dict[str, int]
    rows: dict[str, int]
    layers: int
    influence: list[Influence]
    parts: list[PartEntry]
    never_contribute: list[str]


def survey(
    meter: Meter,
    domains: Sequence[Domain],
    *,
    model: str,
    calibration_sha256: str,
    every: int,
    ablate: Sequence[Kind],
    progress: Callable[[int, int], None],
) -> Profile:
    """Observe all parts and ablate those of the kinds in `ablate`.

    Runs the model over all texts once a part, from the part's layer on.

    Args:
        meter: The loaded model.
        domains: Texts.
        model: Its name.
        calibration_sha256: Of the texts.
        every: Logits are compared after every so many tokens, and after the last of each text.
        ablate: Kinds of parts that are left out one by one.
        progress: Told (done, all) runs.
    """
    windows = [window for domain in domains for window in domain.windows]
    meter.reference(windows, every)
    places = _places(domains)
    shapes = meter.parts()
    empty = meter.empty_mask()
    seen = {name: meter.observe(indices) for name, indices in places.items()}
    meter.trace(empty, list(range(len(windows))))
    parts = candidates(shapes, ("layer", "attention", "mlp", "group", "head"))
    wanted = [part for part in parts if part.kind in ablate and not _is_only_attention(part, len(shapes))]
    lost: dict[Part, dict[str, tuple[float, float]]] = {}
    for done, part in enumerate(wanted):
        progress(done, len(wanted))
        rows = meter.measure(without(empty, part, shapes), list(range(len(windows))))
        lost[part] = {}
        for name, indices in places.items():
            harm = harm_of(name, [rows[index] for index in indices])
            lost[part][name] = (harm.kl_mean, harm.identical)
    progress(len(wanted), len(wanted))
    entries = [
        PartEntry(
            layer=part.layer,
            kind=part.kind,
            index=part.number,
            weight_bytes=round(weight_bytes(part, shapes)),
            domains=[
                _profile(
                    part, name, seen[name][part.layer], shapes[part.layer][1], lost.get(part, {}).get(name)
                )
                for name in places
            ],
        )
        for part in parts
    ]
    return Profile(
        model=model,
        weights_sha256=empty.weights_sha256,
        calibration_sha256=calibration_sha256,
        tokens={domain.name: sum(map(len, domain.windows)) for domain in domains},
        rows={domain.name: sum(-(-len(window) // every) for window in domain.windows) for domain in domains},
        layers=len(shapes),
        influence=[
            Influence(layer=layer, domains={name: _number(seen[name][layer]["influence"]) for name in places})
            for layer in range(len(shapes))
        ],
        parts=entries,
        never_contribute=[
            str(Part(entry.layer, entry.kind, entry.index)) for entry in entries if _never(entry.domains)
        ],
    )


def _places(domains: Sequence[Domain]) -> dict[str, list[int]]:
    """Indices of each domain's windows among all."""
    places: dict[str, list[int]] = {}
    start = 0
    for domain in domains:
        places[domain.name] = list(range(start, start + len(domain.windows)))
        start += len(domain.windows)
    return places


def _is_only_attention(part: Part, layers: int) -> bool:
    """Whether nothing would be left to attend with."""
    return layers == 1 and part.kind in {"layer", "attention"}


def _never(profiles: Sequence[PartProfile]) -> bool:
    silent = all(profile.peak == 0 for profile in profiles)
    return silent or all(profile.identical == 1 for profile in profiles)


def _profile(
    part: Part, domain: str, seen: dict[str, object], kv_heads: int, lost: tuple[float, float] | None
) -> PartProfile:
    norm, relative, peak = _added(part, seen, kv_heads)
    return PartProfile(
        domain=domain,
        output_norm=norm,
        relative_norm=relative,
        peak=peak,
        kl=lost[0] if lost else None,
        identical=lost[1] if lost else None,
    )


def _added(part: Part, seen: dict[str, object], kv_heads: int) -> tuple[float, float, float]:
    if part.kind in {"head", "group"}:
        norms, peaks = _numbers(seen["head_norms"]), _numbers(seen["head_peaks"])
        size = len(norms) // kv_heads if part.kind == "group" else 1
        chosen = slice(part.number * size, (part.number + 1) * size)
        mean = math.fsum(norms) / len(norms) or 1.0
        norm = math.fsum(norms[chosen])
        return norm, norm / size / mean, max(peaks[chosen])
    names = ("attention", "mlp") if part.kind == "layer" else (part.kind,)
    blocks = [block for name in names if isinstance(block := seen[name], dict)]
    return (
        math.fsum(_number(block["norm"]) for block in blocks),
        math.fsum(_number(block["relative_norm"]) for block in blocks),
        max(_number(block["peak"]) for block in blocks),
    )


def _number(value: object) -> float:
    return float(value) if isinstance(value, (int, float)) else 0.0


def _numbers(value: object) -> list[float]:
    return [_number(item) for item in value] if isinstance(value, list) else []
