"""Content codings, undone for our own reading only: what travels on stays as it came."""

from __future__ import annotations

import zlib

_IDENTITY = frozenset({"", "identity"})
_GZIP = frozenset({"gzip", "x-gzip"})
_GZIP_MEMBERS_LIMIT = 64


class CodingError(ValueError):
    """Bytes that cannot be read; `reason` is one word for the receipt."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


def decode(data: bytes, coding: str, limit: int) -> bytes:
    """Undo one content coding.

    Args:
        data: The bytes as they travelled.
        coding: The value of `Content-Encoding`; gzip, deflate or identity.
        limit: Most bytes that may come out. Work stops there, however much the input promises.

    Raises:
        CodingError: Another coding or several (`encoded_body`), damaged or cut bytes (`malformed`),
            or more than `limit` (`too_large`).
    """
    name = coding.strip().lower()
    if name in _IDENTITY:
        if len(data) > limit:
            raise CodingError("too_large")
        return data
    if name in _GZIP:
        return _inflate(data, 16 + zlib.MAX_WBITS, limit)
    if name == "deflate":
        # The standard says zlib; some servers send the raw stream.
        return _inflate(data, zlib.MAX_WBITS if _has_zlib_header(data) else -zlib.MAX_WBITS, limit)
    raise CodingError("encoded_body")


def _has_zlib_header(data: bytes) -> bool:
    """RFC 1950: method 8 in the low half of the first byte, and the first two divisible by 31."""
    first, second = data[:1], data[1:2]
    return bool(second) and first[0] & 0x0F == zlib.DEFLATED and (first[0] << 8 | second[0]) % 31 == 0


def _inflate(data: bytes, window_bits: int, limit: int) -> bytes:
    out = bytearray()
    rest = data
    for _member in range(_GZIP_MEMBERS_LIMIT):
        machine = zlib.decompressobj(window_bits)
        try:
            out += machine.decompress(rest, limit + 1 - len(out))
        except zlib.error as error:
            raise CodingError("malformed") from error
        if len(out) > limit:
            raise CodingError("too_large")
        if not machine.eof:
            raise CodingError("malformed")
        rest = machine.unused_data
        if not rest:
            return bytes(out)
        if window_bits <= zlib.MAX_WBITS:  # only gzip has members
            raise CodingError("malformed")
    raise CodingError("malformed")
