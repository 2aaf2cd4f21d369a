"""Header names: which end at this hop, which are ours, and the two ways they travel."""

from __future__ import annotations

from typing import TYPE_CHECKING

from multidict import CIMultiDict

from zlrs.wire import RawHeaders, end_to_end, is_ours

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = [
    "HISTORICAL_CONTROLS",
    "REQUEST_ONLY_HERE",
    "RawHeaders",
    "end_to_end",
    "index_of",
    "is_ours",
    "to_text",
    "value_of",
]

# What is said to this hop alone, or made anew for the next.
REQUEST_ONLY_HERE = frozenset({b"host", b"content-length", b"expect", b"proxy-authorization"})

# Old spellings of our request controls that are not in the vendor's name space.
HISTORICAL_CONTROLS = frozenset({b"bypass-zero-layer", b"bypass_zero_layer", b"cache-only", b"x-multi-modal"})


# The headers looked at last, and their first values by lower-case name: a request asks a dozen times. Two,
# since those of a request and of its answer take turns.
_Indexed = tuple[RawHeaders, dict[bytes, bytes]]
_recent: tuple[_Indexed, _Indexed] = (((), {}), ((), {}))


def index_of(headers: RawHeaders) -> dict[bytes, bytes]:
    """First values by lower-case name, not to be changed; made once while nobody else asks."""
    global _recent  # noqa: PLW0603 - a small memory; swapped whole, so that threads see one state or the other
    last, earlier = _recent
    if last[0] is headers:
        return last[1]
    if earlier[0] is headers:
        return earlier[1]
    fields: dict[bytes, bytes] = {}
    for name, value in headers:
        fields.setdefault(name.lower(), value)
    if isinstance(headers, tuple):
        _recent = ((headers, fields), last)
    return fields


def value_of(headers: RawHeaders, name: bytes) -> bytes | None:
    """The first value under a lower-case name."""
    return index_of(headers).get(name)


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
