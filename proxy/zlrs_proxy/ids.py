"""Identifiers that sort by time: UUID version 7 (RFC 9562) behind a prefix."""

from __future__ import annotations

import os
import time


def request_id() -> str:
    """`req_` and 32 hexadecimal digits: 48 bits of milliseconds, version, variant, 74 random bits."""
    milliseconds = time.time_ns() // 1_000_000
    noise = int.from_bytes(os.urandom(10), "big")
    high = (milliseconds & ((1 << 48) - 1)) << 16 | 0x7000 | (noise >> 68 & 0xFFF)
    low = 0b10 << 62 | (noise & ((1 << 62) - 1))
    return f"req_{high << 64 | low:032x}"
