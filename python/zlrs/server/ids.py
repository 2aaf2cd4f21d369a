"""Identifiers: UUIDv7 (RFC 9562) with a prefix, so that they sort by time and say what they name."""

from __future__ import annotations

import secrets
import time
import uuid


def new_id(prefix: str) -> str:
    """`prefix` and 32 hexadecimal digits: 48 bits of wall-clock milliseconds, 74 random bits."""
    milliseconds = time.time_ns() // 1_000_000
    random = secrets.randbits(74)
    value = (milliseconds & (1 << 48) - 1) << 80
    value |= 0x7 << 76 | (random >> 62) << 64
    value |= 0b10 << 62 | random & (1 << 62) - 1
    return prefix + uuid.UUID(int=value).hex
