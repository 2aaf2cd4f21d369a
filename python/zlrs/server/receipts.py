"""Response headers of ours: what was computed, by which file, and how long it took."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from zlrs.work import UNKNOWN, Work

if TYPE_CHECKING:
    from collections.abc import Callable

    from zlrs.engine import Engine
    from zlrs.results import Finish, Timings, Usage
    from zlrs.server.headers import RequestHeaders

HISTORICAL = {
    "X-ZLRS-Compute-Profile": "X-Anthropic-Compute-Profile",
    "X-ZLRS-Model-Version": "X-Anthropic-Model-Version",
    "X-ZLRS-Model-Info": "X-Anthropic-Model-Info",
    "X-ZLRS-Zero-Active": "X-Anthropic-Zero-Active",
    "X-ZLRS-Latency": "X-Anthropic-Hardware-Latency",
}
SUM_DIGITS = 12
BLOCK_TOKENS = 16
"""Tokens of one block of KV memory."""


def _on_processor() -> tuple[str, str]:
    return "cpu", "f16"


@dataclass(frozen=True)
class ModelFacts:
    """What is the same for every answer of a loaded model."""

    name: str
    quantization: str
    file_sha256: str
    mask_sum: str
    zero_heads: str
    empty_layers: tuple[int, ...]
    layers: int
    context_tokens: int
    vocabulary: int
    kv_tokens: int
    numerics_version: int = 1
    device: str = "cpu"
    work: Work = UNKNOWN
    kv_precision: str = "f16"
    hardware: Callable[[], tuple[str, str]] = _on_processor
    can_skip: bool = False

    @classmethod
    def of_engine(cls, engine: Engine) -> ModelFacts:
        """From what the engine says. Names may come from a file, so they are made header-safe."""
        info = engine.info
        return cls(
            name=header_safe(engine.name),
            quantization=header_safe(str(info["quantization"])),
            file_sha256=str(info["file_sha256"]),
            mask_sum=str(info["mask_sum"]),
            zero_heads=str(info["zero_heads"]),
            empty_layers=tuple(i for i, layer in enumerate(engine.model.layers) if layer.is_empty),
            layers=int(info["layers"]),
            context_tokens=int(info["context_tokens"]),
            vocabulary=int(info["vocabulary"]),
            kv_tokens=engine.statistics["kv_blocks_total"] * BLOCK_TOKENS,
            numerics_version=int(info["numerics_version"]),
            device=header_safe(str(info["device"])),
            work=Work.of(info),
            kv_precision=str(info["kv_precision"]),
            hardware=engine.hardware,
            can_skip=bool(info["can_skip"]),
        )

    @property
    def version(self) -> str:
        """`NAME QUANTISATION FIRST-12-HEX-OF-SHA-256`, with a mask `+` and the first digits of its sum."""
        return f"{self.name} {self.quantization} {self._sums('+')}"

    @property
    def identity(self) -> str:
        """What makes the tokens: the file, a mask, the rules of arithmetic, the device."""
        mask = f"+{self.mask_sum}" if self.mask_sum else ""
        return f"{self.file_sha256}{mask}:{self.numerics_version}:{self.device}"

    def hardware_of(self, mode: str) -> tuple[str, str]:
        """The hardware's mode and the precision of keys and values now, for an answer of a compute mode.

        Only what may leave work out is governed: the others keep f16.
        """
        if mode.startswith("aggressive") and self.kv_precision != "f16":
            return self.hardware()
        return "cpu" if self.device == "cpu" else "cuda", "f16"

    def dense_layers(self, skipped: int) -> int:
        """Layers that were computed for every token, where up to so many of the last ones were left out."""
        return sum(layer not in self.empty_layers for layer in range(self.layers - skipped))

    def _sums(self, separator: str) -> str:
        mask = separator + self.mask_sum[:SUM_DIGITS] if self.mask_sum else ""
        return self.file_sha256[:SUM_DIGITS] + mask

    @property
    def fingerprint(self) -> str:
        """The Chat API's `system_fingerprint`."""
        return f"fp_{self._sums('_')}"


def header_safe(text: str) -> str:
    """Printable ASCII without the separators that header values of ours use."""
    return "".join(c if c.isascii() and c.isprintable() and c not in ';,="\\ ' else "-" for c in text)[:128]


def compute_profile(facts: ModelFacts, mode: str, counted: Usage | None = None) -> dict[str, str | int]:
    """What was computed, and what was left out: nothing by the exact plan, with f16 KV.

    Args:
        facts: The model.
        mode: What was asked for.
        counted: The answer's tokens, once they are known.
    """
    hardware_mode, kv_precision = facts.hardware_of(mode)
    return {
        "dense_layers": facts.dense_layers(0 if counted is None else counted.most_layer_skips),
        "sparse_skips": 0 if counted is None else counted.sparse_skips,
        "row_layer_skips": 0 if counted is None else counted.row_layer_skips,
        "hardware_mode": hardware_mode,
        "mode": mode,
        "kv_precision": kv_precision,
        "drafted": 0 if counted is None else counted.drafted_tokens,
        "accepted": 0 if counted is None else counted.accepted_tokens,
    }


def drafts(counted: Usage) -> dict[str, object]:
    """What usage says of guessed tokens, where there were any."""
    if not counted.drafted_tokens:
        return {}
    return {"drafted_tokens": counted.drafted_tokens, "accepted_tokens": counted.accepted_tokens}


def latency(timings: Timings, server_io_ms: float) -> str:
    """`queue=…ms,kv=…ms,decomp=…ms,compute=…ms,io=…ms`, each measured where the work is done.

    Args:
        timings: Of the engine.
        server_io_ms: Reading and preparing the request and writing the answer; part of `io`.
    """
    parts = {
        "queue": timings.queue_ms,
        "kv": timings.kv_ms,
        "decomp": timings.decompress_ms,
        "compute": timings.compute_ms,
        "io": timings.io_ms + server_io_ms,
    }
    return ",".join(f"{name}={value:.1f}ms" for name, value in parts.items())


def _model_info(facts: ModelFacts) -> str:
    layers = ",".join(map(str, facts.empty_layers))
    return f"{facts.name};zero-layer={layers};zero-heads={facts.zero_heads}"


def response_headers(
    facts: ModelFacts,
    request: RequestHeaders,
    *,
    enabled: bool,
    historical: bool,
    measured: str | None = None,
    counted: Usage | None = None,
) -> dict[str, str]:
    """The headers of an answer.

    Args:
        facts: The model.
        request: What the request asked for.
        enabled: `headers.receipts`.
        historical: `headers.historical`: use the historical names even when the request did not.
        measured: The `latency` value where it is known before the headers go out.
        counted: The answer's tokens where they are known before the headers go out.
    """
    if not enabled:
        return {}
    headers = {
        "X-ZLRS-Model-Version": facts.version,
        "X-ZLRS-Model-Info": _model_info(facts),
        "X-ZLRS-Compute-Profile": json.dumps(
            compute_profile(facts, request.mode(can_skip=facts.can_skip), counted), separators=(",", ":")
        ),
        "X-ZLRS-Zero-Active": "true" if facts.mask_sum else "false",
    }
    if measured is not None and request.diagnostic:
        headers["X-ZLRS-Latency"] = measured
    if request.historical or historical:
        return {HISTORICAL[name]: value for name, value in headers.items()}
    return headers


def end_facts(
    facts: ModelFacts, request: RequestHeaders, finish: Finish, server_io_ms: float, ignored: tuple[str, ...]
) -> dict[str, object]:
    """The `zlrs` object: everything known only at the end of an answer."""
    known: dict[str, object] = {
        "seed": finish.seed,
        "finish_reason": finish.finish_reason,
        "model_version": facts.version,
        "compute_profile": compute_profile(facts, request.mode(can_skip=facts.can_skip), finish.usage),
    }
    if facts.mask_sum or finish.usage.row_layer_skips:
        known["zero_layer"] = {"saved_share": round(facts.work.saved_share(finish.usage), 6)}
    if request.validated:
        known["validation"] = [asdict(note) for note in finish.notes]
    if request.diagnostic:
        known["latency"] = latency(finish.timings, server_io_ms)
        known["first_token_ms"] = round(finish.timings.first_token_ms, 1)
    if ignored:
        known["ignored_fields"] = list(ignored)
    return known
