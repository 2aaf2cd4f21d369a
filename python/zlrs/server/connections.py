"""A client's connection: a deadline for the head of a request, and errors that echo nothing."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from aiohttp import web
from aiohttp.http_exceptions import LineTooLong

from zlrs.server.errors import encode, error_object, refuse
from zlrs.server.ids import new_id

if TYPE_CHECKING:
    import socket

HEAD_SECONDS = 10.0
"""From the first byte of a connection (or of its next request) to the end of the request's headers."""
KEEPALIVE_SECONDS = 75.0
LINGER_SECONDS = 1.0
LINE_LIMIT_BYTES = 8190
HEADER_COUNT_LIMIT = 128
BACKLOG = 512

# The framework writes requests and their failures to a logger; nothing of a client belongs there.
SILENT = logging.getLogger("zlrs.server.connections")
SILENT.setLevel(logging.CRITICAL + 1)


class Connection(web.RequestHandler):
    """The framework's connection, which by itself waits for headers for ever."""

    __slots__ = ("_head_expected", "_head_seconds", "_head_timer")

    def __init__(self, manager: web.Server, *, loop: asyncio.AbstractEventLoop, head_seconds: float) -> None:
        super().__init__(
            manager,
            loop=loop,
            logger=SILENT,
            access_log=SILENT,
            keepalive_timeout=KEEPALIVE_SECONDS,
            lingering_time=LINGER_SECONDS,
            max_line_size=LINE_LIMIT_BYTES,
            max_field_size=LINE_LIMIT_BYTES,
            max_headers=HEADER_COUNT_LIMIT,
            # A body is read as it was sent: a compressed one is refused, never unpacked.
            auto_decompress=False,
        )
        self._head_seconds = head_seconds
        self._head_timer: asyncio.TimerHandle | None = None
        self._head_expected = True

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Start the deadline."""
        super().connection_made(transport)
        self._arm()

    def data_received(self, data: bytes) -> None:
        """A head that has begun must end in time."""
        if self._head_expected and self._head_timer is None and data:
            self._arm()
        super().data_received(data)

    def connection_lost(self, exc: BaseException | None) -> None:
        """Forget the timer with the connection."""
        self.head_complete()
        super().connection_lost(exc)

    def head_complete(self) -> None:
        """The headers of a request are here."""
        self._head_expected = False
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def head_expected(self) -> None:
        """The request is answered; the next bytes begin another."""
        self._head_expected = True

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """An answer to what is not HTTP; nothing of it is repeated."""
        del message
        if request.writer.output_size > 0:
            raise ConnectionResetError("a failure after the head of the answer was sent")
        if isinstance(exc, LineTooLong):
            refusal = refuse(
                "invalid_request_error",
                f"the request line and each header may have {LINE_LIMIT_BYTES} bytes",
                status=431,
            )
        elif status < 500:  # noqa: PLR2004 - a status is clearest by its number
            refusal = refuse("invalid_request_error", "this is not a well-formed HTTP/1.1 request")
        else:
            refusal = refuse("api_error", "the server failed on this request")
        request_id = new_id("req_")
        response = web.Response(
            status=refusal.error.status,
            body=encode(error_object(refusal, "messages", request_id)),
            content_type="application/json",
            headers={"request-id": request_id, "server": "zlrs"},
        )
        response.force_close()
        return response

    def _arm(self) -> None:
        self._head_timer = self._loop.call_later(self._head_seconds, self.force_close)


async def listen(
    runner: web.AppRunner, listener: socket.socket, *, head_seconds: float = HEAD_SECONDS
) -> asyncio.Server:
    """Accept connections on a bound socket for an application that has been set up.

    Returns:
        The listening server; closing it stops accepting and leaves connections alone.
    """
    loop = asyncio.get_running_loop()
    manager = runner.server
    if manager is None:
        raise RuntimeError("set the runner up first")
    return await loop.create_server(
        lambda: Connection(manager, loop=loop, head_seconds=head_seconds), sock=listener, backlog=BACKLOG
    )
