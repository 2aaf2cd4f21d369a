"""A second reader of HTTP/1.1: refuses whatever two servers could read in two ways, and records what came.

It stands behind the sidecar in the smuggling tests, so that the bytes it forwards are read by other code than
the library that wrote them.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
from dataclasses import dataclass

_LINE = re.compile(rb"[A-Z]{1,20} /[\x21-\x7e]* HTTP/1\.1\Z")
_NAME = rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+"
_SEEN = rb"[\x21-\x7e\x80-\xff]"
_HEADER = re.compile(
    b"(" + _NAME + rb"):[ \t]*(" + _SEEN + rb"(?:[\t\x20-\x7e\x80-\xff]*" + _SEEN + rb")?)?[ \t]*\Z"
)
_SIZE = re.compile(rb"[0-9A-Fa-f]{1,8}\Z")


class AmbiguousError(ValueError):
    """Something that could be read in two ways."""


@dataclass
class Read:
    """One request as the second reader has it."""

    line: bytes
    headers: list[tuple[bytes, bytes]]
    body: bytes

    @property
    def path(self) -> bytes:
        """The target."""
        return self.line.split(b" ")[1]

    def values(self, name: bytes) -> list[bytes]:
        """All values of a header."""
        return [value for found, value in self.headers if found.lower() == name]


async def read_request(reader: asyncio.StreamReader) -> Read | None:
    """The next request of a connection; None at its end.

    Raises:
        AmbiguousError: It is not one thing to everybody.
    """
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError as error:
        if error.partial:
            raise AmbiguousError(f"bytes that are no request: {error.partial[:80]!r}") from None
        return None
    line, *rest = head[:-4].split(b"\r\n")
    if _LINE.fullmatch(line) is None:
        raise AmbiguousError(f"request line {line!r}")
    headers = []
    for one in rest:
        match = _HEADER.fullmatch(one)
        if match is None:
            raise AmbiguousError(f"header {one!r}")
        headers.append((match[1], match[2] or b""))
    read = Read(line, headers, b"")
    lengths, codings = read.values(b"content-length"), read.values(b"transfer-encoding")
    if len(lengths) + len(codings) > 1 or len(read.values(b"host")) != 1:
        raise AmbiguousError(f"framing {lengths} {codings}")
    if codings:
        if codings[0] != b"chunked":
            raise AmbiguousError(f"coding {codings[0]!r}")
        read.body = await _chunks(reader)
    elif lengths:
        if not lengths[0].isdigit():
            raise AmbiguousError(f"length {lengths[0]!r}")
        read.body = await reader.readexactly(int(lengths[0]))
    return read


async def _chunks(reader: asyncio.StreamReader) -> bytes:
    body = b""
    while True:
        size = (await reader.readuntil(b"\r\n"))[:-2]
        if _SIZE.fullmatch(size) is None:
            raise AmbiguousError(f"chunk size {size!r}")
        count = int(size, 16)
        if count == 0:
            if await reader.readexactly(2) != b"\r\n":
                raise AmbiguousError("a trailer")
            return body
        body += await reader.readexactly(count)
        if await reader.readexactly(2) != b"\r\n":
            raise AmbiguousError("a chunk without its end")


class StrictUpstream:
    """Answers `{}` to every request that is one thing to everybody, and records all."""

    def __init__(self) -> None:
        self.requests: list[Read] = []
        self.faults: list[str] = []
        self.url = ""
        self._server: asyncio.Server | None = None

    async def start(self) -> None:
        """Listen on a free loopback port."""
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    async def stop(self) -> None:
        """Close."""
        assert self._server is not None
        self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            try:
                while (read := await read_request(reader)) is not None:
                    self.requests.append(read)
                    body = b"" if read.line.startswith(b"HEAD ") else b"{}"
                    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n" + body)
            except (AmbiguousError, asyncio.LimitOverrunError) as error:
                self.faults.append(str(error))
        writer.close()
