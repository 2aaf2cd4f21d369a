"""Content codings, undone for our own reading only: what travels on stays as it came."""

from __future__ import annotations

import zlib
from functools import lru_cache
from importlib import import_module
from typing import TYPE_CHECKING, Protocol, cast

if TYPE_CHECKING:
    from collections.abc import Callable

_IDENTITY = frozenset({"", "identity"})
_GZIP = frozenset({"gzip", "x-gzip"})
_GZIP_MEMBERS_LIMIT = 64
_ZSTD_WINDOW_BYTES = 8 << 20  # what every decoder must take (RFC 9659)
_ZSTD_PIECE_BYTES = 128


class CodingError(ValueError):
    """Bytes that cannot be read; `reason` is one word for the receipt."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


def decode(data: bytes, coding: str, limit: int) -> bytes:
    """Undo one content coding.

    Args:
        data: The bytes as they travelled.
        coding: The value of `Content-Encoding`; gzip, deflate or identity, and br and zstd where the packages
            `brotli` and `zstandard` are installed.
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
    decoder = _optional(name)
    if decoder is not None:
        return decoder(data, limit)
    raise CodingError("encoded_body")


class _Brotli(Protocol):
    def process(self, data: bytes, *, output_buffer_limit: int) -> bytes: ...

    def is_finished(self) -> bool: ...

    def can_accept_more_data(self) -> bool: ...


class _Zstd(Protocol):
    eof: bool
    unused_data: bytes

    def decompress(self, data: bytes) -> bytes: ...


@lru_cache(maxsize=8)
def _optional(name: str) -> Callable[[bytes, int], bytes] | None:
    """The decoder of a coding that needs a package; None where it is not installed."""
    package = {"br": "brotli", "zstd": "zstandard"}.get(name)
    if package is None:
        return None
    try:
        module = import_module(package)
    except ImportError:
        return None
    if name == "br":
        make = cast("Callable[[], _Brotli]", module.Decompressor)
        fault = cast("type[Exception]", module.error)
        return lambda data, limit: _unbrotli(make(), fault, data, limit)
    frame = cast(
        "Callable[[], _Zstd]", module.ZstdDecompressor(max_window_size=_ZSTD_WINDOW_BYTES).decompressobj
    )
    wrong = cast("type[Exception]", module.ZstdError)
    return lambda data, limit: _unzstd(frame, wrong, data, limit)


def _unbrotli(machine: _Brotli, fault: type[Exception], data: bytes, limit: int) -> bytes:
    out = bytearray()
    rest = data
    try:
        while not machine.is_finished():
            piece = machine.process(rest, output_buffer_limit=limit + 1 - len(out))
            out += piece
            rest = b""
            if len(out) > limit:
                raise CodingError("too_large")
            if not piece and machine.can_accept_more_data():
                break
    except fault as error:
        raise CodingError("malformed") from error
    if not machine.is_finished():
        raise CodingError("malformed")
    return bytes(out)


def _unzstd(make: Callable[[], _Zstd], fault: type[Exception], data: bytes, limit: int) -> bytes:
    # Few bytes can stand for a block of 128 KiB, so little is fed at a time: at most 4 MiB are too many.
    out = bytearray()
    rest = data
    try:
        while rest:
            machine = make()
            start = 0
            while not machine.eof and start < len(rest):
                out += machine.decompress(rest[start : start + _ZSTD_PIECE_BYTES])
                start += _ZSTD_PIECE_BYTES
                if len(out) > limit:
                    raise CodingError("too_large")
            if not machine.eof:
                raise CodingError("malformed")
            rest = machine.unused_data + rest[start:]
    except fault as error:
        raise CodingError("malformed") from error
    return bytes(out)


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
