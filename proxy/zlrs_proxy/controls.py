"""The request headers by which a caller steers the sidecar."""

from __future__ import annotations

import re
from typing import NamedTuple

from zlrs_proxy.names import HISTORICAL_CONTROLS, RawHeaders, index_of, value_of
from zlrs_proxy.refuse import invalid

_BOOLEAN = {b"true": True, b"false": False}
_COHORT = re.compile(rb"[A-Za-z0-9._-]{1,64}")


class Controls(NamedTuple):
    """What this request asked of us."""

    no_graph: bool = False
    cache_only: bool = False
    multi_modal: bool = False
    diagnostic: bool = False
    cohort: str | None = None


_NONE = Controls()
_NAMES = HISTORICAL_CONTROLS | {
    b"x-zlrs-no-graph",
    b"x-zlrs-cache-only",
    b"x-zlrs-multi-modal",
    b"x-zlrs-diagnostic",
    b"x-zlrs-cohort",
}


def controls_of(headers: RawHeaders) -> Controls:
    """Read our controls; old spellings with unknown values count as absent.

    Raises:
        Refusal: A canonical header has a value that is not in the table, or two contradict each other.
    """
    if _NAMES.isdisjoint(index_of(headers)):
        return _NONE
    cohort = value_of(headers, b"x-zlrs-cohort")
    if cohort is not None and _COHORT.fullmatch(cohort) is None:
        raise invalid("X-ZLRS-Cohort must be 1 to 64 of the characters A-Z a-z 0-9 . _ -")
    found = Controls(
        no_graph=_boolean(headers, b"x-zlrs-no-graph", b"bypass-zero-layer", b"bypass_zero_layer"),
        cache_only=_boolean(headers, b"x-zlrs-cache-only", b"cache-only"),
        multi_modal=_boolean(headers, b"x-zlrs-multi-modal", b"x-multi-modal"),
        diagnostic=_diagnostic(headers),
        cohort=None if cohort is None else cohort.decode(),
    )
    if found.no_graph and found.cache_only:
        raise invalid(
            "X-ZLRS-No-Graph: true and X-ZLRS-Cache-Only: true contradict each other.",
            suggestion="Send one of them.",
        )
    return found


def _boolean(headers: RawHeaders, canonical: bytes, *historical: bytes) -> bool:
    value = value_of(headers, canonical)
    if value is not None:
        known = _BOOLEAN.get(value.strip().lower())
        if known is None:
            raise _unknown(canonical, value, "true, false")
        return known
    return any((value_of(headers, name) or b"").strip().lower() == b"true" for name in historical)


def _diagnostic(headers: RawHeaders) -> bool:
    value = value_of(headers, b"x-zlrs-diagnostic")
    if value is None:
        return False
    known = {b"off": False, b"full": True}.get(value.strip().lower())
    if known is None:
        raise _unknown(b"x-zlrs-diagnostic", value, "off, full")
    return known


def _unknown(name: bytes, value: bytes, allowed: str) -> Exception:
    shown = value[:64].decode("ascii", "replace").encode("ascii", "replace").decode()
    header = "-".join("ZLRS" if part == "zlrs" else part.title() for part in name.decode().split("-"))
    return invalid(f"{header} has the value {shown!r}; allowed are: {allowed}.")
