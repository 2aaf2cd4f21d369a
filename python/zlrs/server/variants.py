"""Loads of the model with a mask beside the full one: which request is answered by which."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from zlrs.masks import load_mask
from zlrs.profile.bounds import proportion_upper
from zlrs.profile.report import confidence_of, report_of
from zlrs.server.log import log
from zlrs.server.receipts import ModelFacts, header_safe

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from zlrs.config import Config
    from zlrs.config.model import MaskSettings
    from zlrs.engine import Engine

ENOUGH_TOKENS = 500
"""From so many compared tokens on, what they say counts as much as the mask's own report."""


@dataclass
class Misfires:
    """How often the full model would have chosen another token than a masked one."""

    tokens: int = 0
    differing: int = 0

    def add(self, tokens: int, differing: int) -> None:
        """Take the result of a re-run."""
        self.tokens += tokens
        self.differing += differing

    @property
    def rate(self) -> float:
        """Share of compared tokens, 0 before any."""
        return self.differing / self.tokens if self.tokens else 0.0

    def receipt(self) -> dict[str, object]:
        """For receipts and reports."""
        return {
            "checked_tokens": self.tokens,
            "misfires": self.differing,
            "misfire_upper": round(proportion_upper(self.differing, self.tokens), 6),
        }


@dataclass(frozen=True)
class Variant:
    """The model loaded with one mask.

    Attributes:
        settings: Which requests it may answer.
        engine: The load.
        facts: For its receipts.
        confidence: Of the mask, from its report.
        misfires: Counted while it answers.
    """

    settings: MaskSettings
    engine: Engine
    facts: ModelFacts
    confidence: float
    misfires: Misfires = field(default_factory=Misfires)

    @property
    def name(self) -> str:
        """The mask's name."""
        return name_of(self.settings)

    def may(self, mode: str, temperature: float, least: float) -> bool:
        """Whether it may answer: mode and temperature are its, and re-runs do not speak against it."""
        settings = self.settings
        low, high = settings.temperature_min, settings.temperature_max
        trusted = self.misfires.tokens < ENOUGH_TOKENS or 1 - self.misfires.rate >= least
        return mode == settings.mode and low <= temperature <= high and trusted

    def receipt(self) -> dict[str, object]:
        """Its part of the `zlrs` object."""
        return {
            "mask": self.name,
            "confidence": round(self.confidence, 6),
            **self.misfires.receipt(),
        }


class Variants:
    """All of them, in the order of the configuration; the first that may answer does."""

    def __init__(self, variants: Iterable[Variant], least_confidence: float) -> None:
        self._all = tuple(variants)
        self._least = least_confidence

    def __iter__(self) -> Iterator[Variant]:
        return iter(self._all)

    def __len__(self) -> int:
        return len(self._all)

    def choose(self, mode: str, temperature: float, *, require_exits: bool = False) -> Variant | None:
        """Who answers a request; `None`: the full model, which alone has exit heads."""
        if require_exits:
            return None
        return next((one for one in self._all if one.may(mode, temperature, self._least)), None)


def name_of(settings: MaskSettings) -> str:
    """The configured name, or the file's stem, safe for headers."""
    return header_safe(settings.name or Path(settings.path).stem)


def trace_layers(engine: Engine, mask: str) -> None:
    """A log line for every layer: what it holds, and what of it was left out of the load."""
    heads: dict[int, str] = {}
    for entry in filter(None, str(engine.info["zero_heads"]).split(",")):
        place, _, head = entry.partition(".")
        heads[int(place)] = f"{heads[int(place)]},{head}" if int(place) in heads else head
    for index, layer in enumerate(engine.model.layers):
        log(
            "layer",
            mask=mask,
            layer=index,
            heads=layer.heads,
            kv_heads=layer.kv_heads,
            attention_bytes=layer.attention_bytes,
            mlp_bytes=layer.mlp_bytes,
            heads_left_out=heads.get(index, ""),
            is_empty=layer.is_empty,
        )


def load_variants(config: Config, load: Callable[[str], Engine]) -> Variants:
    """Load the model once more for every mask of the configuration that is sure enough.

    Args:
        config: All settings.
        load: Loads the model with a mask file.

    Raises:
        ConfigurationError: A mask cannot be read.
        ZeroLayerMismatchError: A mask is for other weights.
    """
    least = config.zero_layer.confidence
    found = []
    for settings in config.zero_layer.masks:
        report = report_of(load_mask(settings.path))
        confidence = 0.0 if report is None else confidence_of(report)
        name = name_of(settings)
        if confidence < least:
            log("mask_not_used", mask=name, confidence=round(confidence, 4), least=least)
            continue
        engine = load(settings.path)
        info = engine.info
        if info["mask"] != "used":
            log("mask_not_used", mask=name, reason=str(info["mask"]))
            engine.close()
            continue
        if config.server.log_level == "debug":
            trace_layers(engine, name)
        variant = Variant(settings, engine, ModelFacts.of_engine(engine), confidence)
        log(
            "mask_loaded",
            mask=name,
            confidence=round(confidence, 4),
            weight_bytes=int(info["weight_bytes"]),
            kv_bytes=int(info["kv_bytes"]),
            saved_share=round(variant.facts.work.saved_share(), 4),
        )
        found.append(variant)
    return Variants(found, least)
