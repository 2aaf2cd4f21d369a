"""Header names: which end at this hop, which are ours, and the two ways they travel."""

from __future__ import annotations

from typing import TYPE_CHECKING

from multidict import CIMultiDict

if TYPE_CHECKING:
    from collections.abc import Iterable

RawHeaders = tuple[tuple[bytes, bytes], ...]

OURS = b"x-zlrs-"

# Connection-level fields (RFC 9110, section 7.6.1, and their historical kin), the framing that each hop makes
# for itself, and what is said to a proxy rather than to the origin.
HOP_BY_HOP = frozenset(
    {
        b"connection",
        b"keep-alive",
        b"proxy-connection",
        b"te",
        b"trailer",
        b"transfer-encoding",
        b"upgrade",
    }
)
REQUEST_ONLY_HERE = frozenset({b"host", b"content-length", b"expect", b"proxy-authorization"})

# Old spellings of our request controls that are not in the vendor's name space.
HISTORICAL_CONTROLS = frozenset({b"bypass-zero-layer", b"bypass_zero_layer", b"cache-only", b"x-multi-modal"})

CREDENTIALS = frozenset({b"authorization", b"x-api-key", b"api-key", b"x-goog-api-key"})


def connection_named(headers: RawHeaders) -> frozenset[bytes]:
    """Lower-case names that `Connection` lists, which end at this hop too."""
    named: set[bytes] = set()
    for name, value in headers:
        if name.lower() == b"connection":
            named.update(part.strip().lower() for part in value.split(b","))
    # A peer cannot use Connection to strip what frames the message or says who is asking.
    return frozenset(named - CREDENTIALS - {b"", b"content-length", b"content-type", b"content-encoding"})


def end_to_end(headers: RawHeaders, drop: frozenset[bytes] = frozenset()) -> list[tuple[bytes, bytes]]:
    """The headers that travel on, in order, with their spelling and repetitions."""
    gone = HOP_BY_HOP | connection_named(headers) | drop
    return [(name, value) for name, value in headers if name.lower() not in gone]


def is_ours(name: bytes) -> bool:
    """Whether a header is in the name space of zlrs."""
    return name.lower().startswith(OURS)


def value_of(headers: RawHeaders, name: bytes) -> bytes | None:
    """The first value under a lower-case name."""
    return next((value for found, value in headers if found.lower() == name), None)


def to_text(headers: Iterable[tuple[bytes, bytes]]) -> tuple[CIMultiDict[str], list[str]]:
    """Headers as text for the HTTP library, and the names of those that are not UTF-8 and cannot be sent.

    A repeated name keeps the spelling of its first line: the library would take another spelling for a
    replacement.
    """
    text: CIMultiDict[str] = CIMultiDict()
    spelling: dict[bytes, str] = {}
    refused: list[str] = []
    for name, value in headers:
        shown = spelling.setdefault(name.lower(), name.decode("latin-1"))
        decoded = _utf8(value)
        if decoded is None or not shown.isascii():
            refused.append(shown)
        else:
            text.add(shown, decoded)
    return text, refused


def _utf8(value: bytes) -> str | None:
    try:
        return value.decode("utf-8")
    except UnicodeDecodeError:
        return None
