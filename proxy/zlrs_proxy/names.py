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
    "is_ours",
    "to_text",
    "value_of",
]

# What is said to this hop alone, or made anew for the next.
REQUEST_ONLY_HERE = frozenset({b"host", b"content-length", b"expect", b"proxy-authorization"})

# Old spellings of our request controls that are not in the vendor's name space.
HISTORICAL_CONTROLS = frozenset({b"bypass-zero-layer", b"bypass_zero_layer", b"cache-only", b"x-multi-modal"})


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
