"""Identifiers that sort by time: UUID version 7 (RFC 9562) behind a prefix."""

from __future__ import annotations

import os
import threading
import time

_NOISE_BYTES = 10
_DRAWN_AT_ONCE = 400
_drawn = threading.local()


def request_id() -> str:
    """`req_` and 32 hexadecimal digits: 48 bits of milliseconds, version, variant, 74 random bits."""
    milliseconds = time.time_ns() // 1_000_000
    noise = int.from_bytes(_noise(), "big")
    high = (milliseconds & ((1 << 48) - 1)) << 16 | 0x7000 | (noise >> 68 & 0xFFF)
    low = 0b10 << 62 | (noise & ((1 << 62) - 1))
    return f"req_{high << 64 | low:032x}"


def _noise() -> bytes:
    """Ten random bytes; one call of the system serves forty."""
    pieces: list[bytes] | None = getattr(_drawn, "pieces", None)
    if not pieces:
        block = os.urandom(_DRAWN_AT_ONCE)
        pieces = [block[i : i + _NOISE_BYTES] for i in range(0, _DRAWN_AT_ONCE, _NOISE_BYTES)]
        _drawn.pieces = pieces
    return pieces.pop()
