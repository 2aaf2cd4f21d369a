"""Which failures may be tried again, and when. Everything here is before the first byte of an answer."""

from __future__ import annotations

from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING

from zlrs_proxy.names import RawHeaders, value_of

if TYPE_CHECKING:
    import random

# The upstream says that it has not worked on the request.
_REFUSED = frozenset({429, 503, 529})
# It may have; only for requests that change nothing.
_BROKEN = frozenset({500, 502, 504})
_IDEMPOTENT = frozenset({"GET", "HEAD", "OPTIONS"})
# No byte of the request has been taken.
_NEVER_SENT = frozenset({"unreachable", "connect_timeout", "tls"})
_BACKOFF_SECONDS = 0.5


def may_repeat_status(method: str, status: int, headers: RawHeaders) -> bool:
    """Whether an answer may be asked for again: what the upstream says, else what its status means."""
    said = (value_of(headers, b"x-should-retry") or b"").strip().lower()
    if said == b"false" or status < 400:  # noqa: PLR2004 - a status is clearest by its number
        return False
    if said == b"true" or status in _REFUSED:
        return True
    return status in _BROKEN and method in _IDEMPOTENT


def may_repeat_failure(method: str, kind: str) -> bool:
    """Whether a call without an answer may be made again."""
    return kind in _NEVER_SENT or method in _IDEMPOTENT


def wait_seconds(headers: RawHeaders, tries: int, now_ms: int, rng: random.Random) -> float:
    """How long to wait before the next try.

    Args:
        headers: Of the answer; `retry-after-ms`, then `retry-after` in seconds or as a date.
        tries: Tries so far, at least 1.
        now_ms: Wall time, for dates.
        rng: Spreads the waits of many callers where the upstream names none.
    """
    named = _named_seconds(headers, now_ms)
    if named is not None:
        return max(0.0, named)
    return _BACKOFF_SECONDS * 2.0 ** (tries - 1) * (0.75 + 0.5 * rng.random())


def _named_seconds(headers: RawHeaders, now_ms: int) -> float | None:
    milliseconds = _number(value_of(headers, b"retry-after-ms"))
    if milliseconds is not None:
        return milliseconds / 1000
    value = value_of(headers, b"retry-after")
    seconds = _number(value)
    if seconds is not None or value is None:
        return seconds
    try:
        return parsedate_to_datetime(value.decode("latin-1")).timestamp() - now_ms / 1000
    except (ValueError, TypeError, OverflowError):
        return None


def _number(value: bytes | None) -> float | None:
    text = (value or b"").strip()
    whole, _, part = text.partition(b".")
    if not whole.isdigit() or len(text) > 12 or (part and not part.isdigit()):  # noqa: PLR2004 - the most digits that can be meant
        return None
    return float(text)
