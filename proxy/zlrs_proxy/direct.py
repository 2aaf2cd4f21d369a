"""A short request upstream in one write, on the HTTP library's connections and parser, without its session.

For every request the session copies the headers, makes a task for the body and timers for limits that are not
used here: more work than all of ours. Addresses, TLS, pool and parser stay the library's.
"""

from __future__ import annotations

import asyncio
import re
from functools import partial
from typing import TYPE_CHECKING, Protocol

import aiohttp
from aiohttp import hdrs
from aiohttp.client_proto import ResponseHandler
from yarl import URL

if TYPE_CHECKING:
    from collections.abc import Iterable

    from aiohttp.client_reqrep import ClientRequest
    from aiohttp.connector import BaseConnector, Connection
    from aiohttp.http import RawResponseMessage
    from aiohttp.streams import StreamReader

    from zlrs_proxy.names import RawHeaders
    from zlrs_proxy.pool import Member

_CONTROL = re.compile(rb"[\x00-\x08\x0a-\x1f\x7f]")
_FIRST_FINAL = 200
_SWITCHING = 101


class Answer(Protocol):
    """An upstream's answer whose head is here: the library's own, or one of a `Direct` request."""

    content: StreamReader

    @property
    def status(self) -> int:
        """The status."""

    @property
    def reason(self) -> str | None:
        """The reason phrase."""

    @property
    def raw_headers(self) -> RawHeaders:
        """Names and values as they came."""

    @property
    def connection(self) -> Connection | None:
        """What it comes over, until all of it is here."""

    def close(self) -> None:
        """Close the connection."""

    def release(self) -> object:
        """Give the connection back."""


class DirectAnswer:
    """The answer to a `Direct` request; its connection goes back to the pool with the last byte."""

    __slots__ = ("_connection", "content", "raw_headers", "reason", "status")

    def __init__(self, connection: Connection, message: RawResponseMessage, content: StreamReader) -> None:
        self._connection: Connection | None = connection
        self.status = message.code
        self.reason: str | None = message.reason
        self.raw_headers: RawHeaders = message.raw_headers
        self.content = content
        content.on_eof(self._ended)

    @property
    def connection(self) -> Connection | None:
        """What it comes over, until all of it is here."""
        return self._connection

    def close(self) -> None:
        """Close the connection; whoever still reads is told."""
        if self._connection is not None:
            connection, self._connection = self._connection, None
            if not self.content.is_eof() and self.content.exception() is None:
                self.content.set_exception(aiohttp.ClientConnectionError("Connection closed"))
            connection.close()

    def release(self) -> None:
        """Give the connection back; it is closed there if anything is left on it."""
        if self._connection is not None:
            connection, self._connection = self._connection, None
            connection.release()

    def _ended(self) -> None:
        connection = self._connection
        if connection is not None and connection.protocol is not None and not connection.protocol.upgraded:
            self.release()


class UpstreamProtocol(ResponseHandler):
    """The library's connection, which does not parse again after each read where reading was not paused."""

    def resume_reading(self, resume_parser: bool = True) -> None:
        """Go on where reading was paused."""
        if self._reading_paused or self._buffer_paused:
            super().resume_reading(resume_parser)


class Direct:
    """Sends short POST requests. Made on the loop.

    Args:
        connector: Whose pool is used; the session's own, so that there is one.
        connect_seconds: Longest time to a new connection.
    """

    def __init__(self, connector: BaseConnector, connect_seconds: float) -> None:
        self._connector = connector
        # The library has no argument for it.
        kind: type[ResponseHandler] = UpstreamProtocol
        connector._factory = partial(kind, loop=asyncio.get_running_loop())  # noqa: SLF001 - see above
        self._timeout = aiohttp.ClientTimeout(total=None, sock_connect=connect_seconds)
        self._origins: dict[Member, _Origin] = {}

    def origin(self, member: Member) -> _Origin:
        """Where an upstream is, worked out once."""
        found = self._origins.get(member)
        if found is None:
            found = self._origins[member] = _Origin(member)
        return found

    async def post(self, origin: _Origin, request: bytes) -> DirectAnswer:
        """Send head and body in one write; returns when the head of the final answer is here.

        Raises:
            aiohttp.ClientError, OSError: No connection, or no answer that is HTTP.
        """
        try:
            connection = await self._connector.connect(origin.request, traces=[], timeout=self._timeout)
        except asyncio.TimeoutError as error:
            raise aiohttp.ConnectionTimeoutError(f"Connection timeout to host {origin.url}") from error
        try:
            protocol, transport = connection.protocol, connection.transport
            if protocol is None or transport is None or transport.is_closing():
                raise aiohttp.ClientConnectionResetError("Cannot write to closing transport")  # noqa: TRY301 - closed below like every other failure
            protocol.set_response_params(read_until_eof=True, auto_decompress=False)
            transport.write(request)
            while True:
                message, content = await protocol.read()
                if message.code >= _FIRST_FINAL or message.code == _SWITCHING:
                    return DirectAnswer(connection, message, content)
        except BaseException:
            connection.close()
            raise


class _Origin:
    """An upstream as the library's connector knows it, and the head of every request to it."""

    def __init__(self, member: Member) -> None:
        self.url = URL(member.upstream.origin)
        # Only says where to connect: every request of ours goes over connections made for this one.
        self.request: ClientRequest = aiohttp.ClientRequest("POST", self.url, ssl=member.tls)
        self._host = b" HTTP/1.1\r\nHost: " + self.request.headers[hdrs.HOST].encode("ascii") + b"\r\n"

    def post(self, path: bytes, headers: Iterable[tuple[bytes, bytes]], body: bytes) -> bytes | None:
        """A request as it travels; None when a header has something in it that needs a closer look."""
        lines = [b"%b: %b" % pair for pair in headers]
        together = b"".join(lines)
        if not together.isascii() or _CONTROL.search(together) is not None:
            return None
        lines.append(b"Content-Length: %d\r\n\r\n" % len(body))
        return b"".join((b"POST ", path, self._host, b"\r\n".join(lines), body))
