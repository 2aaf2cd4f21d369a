"""Our request headers: which values they may have and what this engine does with them today."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal

from zlrs.server.errors import invalid

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from zlrs.results import Compute

RING_TOKENS = (5, 256)
STRENGTH = (0.1, 1.0)
VALUE_SHOWN = 80
"""Characters of a refused value that are repeated in the message."""


@dataclass(frozen=True)
class Rule:
    """One header: its names, the values it may have, in the words of the reference."""

    canonical: str
    historical: tuple[str, ...]
    allowed: str
    valid: Callable[[str], bool]
    default: str


def _one_of(*values: str) -> Callable[[str], bool]:
    return lambda value: value in values


def _context(value: str) -> bool:
    strategy, separator, parameter = value.partition(";")
    if strategy.strip() not in {"full", "anchor-prioritized"}:
        return False
    name, _, strength = parameter.strip().partition("=")
    if not separator:
        return True
    return (
        name == "strength"
        and re.fullmatch(r"[01](\.\d{1,3})?", strength) is not None
        and STRENGTH[0] <= float(strength) <= STRENGTH[1]
    )


def _ring(value: str) -> bool:
    return re.fullmatch(r"\d{1,3}", value) is not None and RING_TOKENS[0] <= int(value) <= RING_TOKENS[1]


def _pattern(pattern: str) -> Callable[[str], bool]:
    return lambda value: re.fullmatch(pattern, value) is not None


_SWITCH = _one_of("false", "true")

RULES = (
    Rule(
        "X-ZLRS-Compute",
        ("X-Anthropic-Compute-Optimization",),
        "exact, sparse-state-aware, aggressive, legacy",
        _one_of("exact", "sparse-state-aware", "aggressive", "legacy"),
        "exact",
    ),
    Rule(
        "X-ZLRS-Context",
        ("X-Anthropic-Context-Strategy",),
        "full, anchor-prioritized, either with ;strength=0.1 … 1.0",
        _context,
        "full",
    ),
    Rule(
        "X-ZLRS-Guarantee",
        ("X-Anthropic-Output-Guarantee",),
        "none, fidelity-verified",
        _one_of("none", "fidelity-verified"),
        "none",
    ),
    Rule(
        "X-ZLRS-KV-Policy",
        ("X-Anthropic-KV-Policy",),
        "keep, anchor-first",
        _one_of("keep", "anchor-first"),
        "keep",
    ),
    Rule("X-ZLRS-Ring", ("X-Anthropic-Stream-Buffer",), "5 … 256 (tokens)", _ring, "64"),
    Rule("X-ZLRS-Validation", ("X-Anthropic-Validation",), "on, off", _one_of("on", "off"), "on"),
    Rule(
        "X-ZLRS-Validation-Head",
        ("X-Anthropic-Validation-Head",),
        "id of an uploaded head, or its base64",
        bool,
        "",
    ),
    Rule(
        "X-ZLRS-Session",
        ("X-Anthropic-Session",),
        "create, or a session secret",
        _pattern(r"create|[A-Za-z0-9_-]{32,128}"),
        "",
    ),
    Rule(
        "X-ZLRS-Context-Signature",
        ("X-Anthropic-Context-Signature",),
        "64 hexadecimal digits",
        _pattern(r"[0-9a-fA-F]{64}"),
        "",
    ),
    Rule(
        "X-ZLRS-KV-Migrate",
        ("X-Anthropic-KV-Migrate",),
        "A-to-B",
        _pattern(r"[A-Za-z0-9._:/-]{1,128}-to-[A-Za-z0-9._:/-]{1,128}"),
        "",
    ),
    Rule(
        "X-ZLRS-Stream-Mode",
        ("X-Anthropic-Stream-Mode",),
        "token, provisional, semantic",
        _one_of("token", "provisional", "semantic"),
        "token",
    ),
    Rule("X-ZLRS-Diagnostic", ("X-Anthropic-Diagnostic",), "off, full", _one_of("off", "full"), "off"),
    Rule("X-ZLRS-No-Graph", ("bypass-zero-layer", "bypass_zero_layer"), "false, true", _SWITCH, "false"),
    Rule("X-ZLRS-Cache-Only", ("cache-only",), "false, true", _SWITCH, "false"),
)

NOT_BUILT: Mapping[str, Callable[[str], bool]] = {
    "X-ZLRS-Stream-Mode": _one_of("semantic"),
}
"""Headers whose effect a client relies on, and which values this version lacks.

The others only allow work to be skipped; skipping none is a correct answer, and the receipt says so.
"""

CASE_MATTERS = frozenset({"X-ZLRS-Validation-Head", "X-ZLRS-Session", "X-ZLRS-KV-Migrate"})
"""Headers whose values are names or secrets of their own."""

PROFILE = ("X-ZLRS-Compute", "X-ZLRS-Context", "X-ZLRS-Guarantee", "X-ZLRS-KV-Policy")
"""What a session's first request fixes for all of them."""

ANCHOR_MODE = {
    "X-ZLRS-Compute": "sparse-state-aware",
    "X-ZLRS-Context": "anchor-prioritized",
    "X-ZLRS-Guarantee": "fidelity-verified",
}
"""Three headers that mean something only together."""


@dataclass(frozen=True)
class RequestHeaders:
    """What our headers of one request ask for.

    Attributes:
        values: canonical name -> value, defaults filled in.
        given: The canonical names that were there.
        historical: A historical spelling was used, so the response uses them too.
        degraded: Historical headers whose value is unknown; they count as absent.
        include: `Accept: …; include-headers=true`: the body repeats the response headers.
        masked: A load with a mask answers, as the compute mode allows.
        validated: The answer is looked at, and may be corrected.
    """

    values: Mapping[str, str]
    given: frozenset[str] = frozenset()
    historical: bool = False
    degraded: tuple[str, ...] = field(default=())
    include: bool = False
    masked: bool = False
    validated: bool = False

    @property
    def diagnostic(self) -> bool:
        """Whether timings are asked for."""
        return self.values["X-ZLRS-Diagnostic"] == "full"

    @property
    def no_graph(self) -> bool:
        """Whether the decision graph must not answer."""
        return self.values["X-ZLRS-No-Graph"] == "true"

    @property
    def cache_only(self) -> bool:
        """Whether only the decision graph may answer."""
        return self.values["X-ZLRS-Cache-Only"] == "true"

    @property
    def session(self) -> str:
        """`create`, a session's secret, or nothing."""
        return self.values["X-ZLRS-Session"]

    @property
    def signature(self) -> str:
        """The client's signature of user and session, or nothing."""
        return self.values["X-ZLRS-Context-Signature"]

    @property
    def migrate(self) -> str:
        """`A-to-B`, or nothing."""
        return self.values["X-ZLRS-KV-Migrate"]

    @property
    def stream_mode(self) -> Literal["plain", "verified", "provisional"]:
        """What a stream tells of single tokens; without the validation ring there are no guesses."""
        if self.values["X-ZLRS-Stream-Mode"] != "provisional":
            return "plain"
        return "provisional" if self.validation else "verified"

    @property
    def ring_tokens(self) -> int:
        """How far back an update may reach."""
        return int(self.values["X-ZLRS-Ring"])

    @property
    def validation(self) -> bool:
        """Whether the validation ring is on."""
        return self.values["X-ZLRS-Validation"] == "on"

    @property
    def validation_head(self) -> str:
        """Id of an uploaded head, or the head itself; empty without one."""
        return self.values["X-ZLRS-Validation-Head"]

    @property
    def load_mode(self) -> str:
        """The mode by which a load is chosen; an anchor mode that lacks a header is `exact`."""
        value = self.values["X-ZLRS-Compute"]
        whole = all(self.values[name].partition(";")[0] == asked for name, asked in ANCHOR_MODE.items())
        return "exact" if value == ANCHOR_MODE["X-ZLRS-Compute"] and not whole else value

    @property
    def profile(self) -> dict[str, str]:
        """The compute headers with their values."""
        return {name: self.values[name] for name in PROFILE}

    def with_profile(self, profile: Mapping[str, str]) -> RequestHeaders:
        """The same request with the compute headers of its session."""
        return replace(self, values={**self.values, **profile})

    @property
    def engine_compute(self) -> Compute:
        """What the engine may leave out."""
        return "aggressive" if self.values["X-ZLRS-Compute"] == "aggressive" else "exact"

    def exact(self) -> RequestHeaders:
        """The same request with nothing left out."""
        return self.with_profile({"X-ZLRS-Compute": "exact"})

    def mode(self, *, can_skip: bool) -> str:
        """The compute mode of the receipt, and what was asked for and not done.

        The mode is `exact`, `aggressive` or `legacy`.

        `missing=…` names the rest of the anchor mode when only a part of it was asked for; `unavailable=…`
        what this engine cannot skip; `ignored=…` historical headers with an unknown value.

        Args:
            can_skip: Whether something is installed that aggressive requests leave out.
        """
        notes = []
        asked = {name for name, value in ANCHOR_MODE.items() if self.values[name].partition(";")[0] == value}
        if asked and asked != set(ANCHOR_MODE):
            notes.append("missing=" + ",".join(_short(name) for name in ANCHOR_MODE if name not in asked))
        elif asked:
            notes.append("unavailable=anchor")
        if self.engine_compute == "aggressive" and not (self.masked or can_skip):
            notes.append("unavailable=aggressive")
        if self.values["X-ZLRS-KV-Policy"] == "anchor-first":
            notes.append("unavailable=kv-policy")
        if self.degraded:
            notes.append("ignored=" + ",".join(_short(name) for name in self.degraded))
        if self.validated:
            notes.append("validated")
        mode: str = self.engine_compute if can_skip else "exact"
        if self.masked or self.values["X-ZLRS-Compute"] == "legacy":
            mode = self.values["X-ZLRS-Compute"]
        return ";".join([mode, *notes])


def _short(name: str) -> str:
    return name.removeprefix("X-ZLRS-").lower()


def parse(headers: Mapping[str, str], compute: Compute = "exact") -> RequestHeaders:
    """Read and check our headers.

    Args:
        headers: Case-insensitive, as the server framework gives them.
        compute: `engine.compute`: what requests without a header of their own get.

    Raises:
        Refusal: 400 naming header, value and allowed values; or that this version lacks what is asked for.
    """
    values = {}
    given = set()
    degraded = []
    historical = False
    for rule in RULES:
        values[rule.canonical] = compute if rule.canonical == "X-ZLRS-Compute" else rule.default
        name = next((n for n in (rule.canonical, *rule.historical) if n in headers), None)
        if name is None:
            continue
        value = headers[name].strip()
        folded = value if rule.canonical in CASE_MATTERS else value.lower()
        is_historical = name != rule.canonical
        historical |= is_historical
        if not rule.valid(folded):
            if is_historical:
                degraded.append(rule.canonical)
                continue
            raise invalid(f"{name}: {value[:VALUE_SHOWN]!r} is not one of the allowed values: {rule.allowed}")
        given.add(rule.canonical)
        values[rule.canonical] = folded
        if rule.canonical in NOT_BUILT and NOT_BUILT[rule.canonical](folded):
            shown = f" {folded!r}" if rule.canonical not in CASE_MATTERS else ""
            raise invalid(
                f"{name}{shown} is not available in this version", suggestion="Leave the header out"
            )
    include = "include-headers=true" in headers.get("accept", "").replace(" ", "").lower()
    parsed = RequestHeaders(values, frozenset(given), historical, tuple(degraded))
    return replace(parsed, include=include)
