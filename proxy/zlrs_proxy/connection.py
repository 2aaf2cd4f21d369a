"""A client's connection: a deadline on headers, a cap on their number, errors that echo nothing."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, cast

from aiohttp import HttpVersion11, hdrs, web
from aiohttp.http import RawRequestMessage, StreamWriter
from aiohttp.http_exceptions import LineTooLong

from zlrs.errors import APIError
from zlrs_proxy.ids import request_id
from zlrs_proxy.refuse import Refusal, invalid
from zlrs_proxy.respond import refusal_response

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from zlrs_proxy.decide import Verdict
    from zlrs_proxy.exchange import Exchange
    from zlrs_proxy.settings import Settings

    AtOnce = Callable[[web.BaseRequest, Verdict | None], bytes | Exchange | None]
    Plain = Callable[[bytes], bytes | Verdict | None]

# The library wants a logger here; one that takes nothing costs nothing.
_NO_ACCESS_LOG = logging.getLogger("zlrs_proxy.access")
_NO_ACCESS_LOG.setLevel(logging.CRITICAL + 1)
_LINGER_SECONDS = 1.0
_HEAD_END = b"\r\n\r\n"
_LINE_LIMIT_BYTES = 8190
_HEADER_COUNT_LIMIT = 128


class Connection(web.RequestHandler):
    """The HTTP library's connection, which by itself waits for headers for ever.

    The timer runs from the start of the connection, and again from the first byte after each answer, to the
    moment when the headers are complete. A connection that is merely idle ends by the keep-alive timeout.

    A request that is here whole while nothing else is under way is first offered to the server's `at_once`:
    an answer that needs no wait goes out from here, without a task, a future and two turns of the loop.
    Everything else goes the library's way, with what `at_once` has already found out.

    Where all bytes that came belong to whole requests, the next ones begin a request, and the server's
    `plain` is asked before the library parses them. What a request still lacks is counted by the length that
    it declared; where that is not certain, the library reads the rest of the connection.
    """

    __slots__ = (
        "_begun",
        "_expects_head",
        "_head_seconds",
        "_head_timer",
        "_is_new",
        "_lacking",
        "_verdict",
    )

    def __init__(self, server: Server, *, loop: asyncio.AbstractEventLoop, settings: Settings) -> None:
        super().__init__(
            server,
            loop=loop,
            keepalive_timeout=settings.keepalive_seconds,
            access_log=_NO_ACCESS_LOG,
            auto_decompress=False,
            lingering_time=_LINGER_SECONDS,
            max_line_size=_LINE_LIMIT_BYTES,
            max_field_size=_LINE_LIMIT_BYTES,
            max_headers=_HEADER_COUNT_LIMIT,
        )
        self._head_seconds = settings.header_seconds
        self._head_timer: asyncio.TimerHandle | None = None
        self._expects_head = True
        self._begun: Exchange | None = None
        self._is_new = True
        self._lacking: int | None = 0
        self._verdict: Verdict | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Start the headers' deadline; close at once when there are too many connections."""
        super().connection_made(transport)
        self._arm()

    def connection_lost(self, exc: BaseException | None) -> None:
        """Forget the timer with the connection."""
        self._disarm()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Parse; a head that has begun and is not complete must end in time."""
        self._verdict = None
        waiter, is_new = self._waiter, self._is_new
        self._is_new = False
        # The library's own loop waits, or has not begun: the first bytes often come before it.
        is_free = is_new if waiter is None else not waiter.done()
        if not is_free or self._messages or self._paused:
            is_first = not self._messages
            super().data_received(data)
            self._count(data, is_first=is_first)
        elif self._lacking == 0 and self._answered_plain(data):
            return
        else:
            # The library's own loop is woken afterwards, and only where there is something left for it.
            self._waiter = None
            try:
                super().data_received(data)
            finally:
                self._waiter = waiter
            self._count(data, is_first=True)
            if self._messages:
                if not self._answered_at_once() and waiter is not None and not waiter.done():
                    waiter.set_result(None)
                return
        if self._expects_head and self._head_timer is None and data and not self._messages:
            self._arm()

    def resume_reading(self, resume_parser: bool = True) -> None:
        """Go on where reading was paused. Where it was not, nothing waits that would have to be parsed."""
        if self._reading_paused or self._buffer_paused:
            super().resume_reading(resume_parser)

    def take_begun(self, request: web.BaseRequest) -> Exchange | None:
        """What `at_once` has found out about this request."""
        begun, self._begun = self._begun, None
        return begun if begun is not None and begun.headers is request.raw_headers else None

    def _answered_plain(self, data: bytes) -> bool:
        """Whether these bytes were one whole request, and it has been answered."""
        server, transport = cast("Server", self._manager), self.transport
        found = None
        if server.plain is not None and transport is not None and not transport.is_closing():
            try:
                found = server.plain(data)
            except Exception as error:  # noqa: BLE001 - a fault of ours; the request goes on as all others do
                server.note_error(500, error)
        if not isinstance(found, bytes):
            self._verdict = found
        elif transport is not None:
            self._answered(server, transport, found)
            return True
        return False

    def _count(self, data: bytes, *, is_first: bool) -> None:
        """Follow what the request that is arriving still lacks.

        Args:
            data: Has just been parsed.
            is_first: No request waited before.
        """
        if self._lacking == 0:
            self._lacking = self._lacks(data) if is_first else None
        elif self._lacking is not None:
            rest = self._lacking - len(data)
            self._lacking = rest if rest >= 0 else None

    def _lacks(self, data: bytes) -> int | None:
        """Bytes that the request which begins with `data` still lacks; None where that is not certain."""
        if len(self._messages) != 1:
            return None
        message, _ = self._messages[0]
        head = data.find(_HEAD_END)
        if head < 0 or not isinstance(message, RawRequestMessage) or message.chunked or message.upgrade:
            return None
        declared = head + len(_HEAD_END) + int(message.headers.get(hdrs.CONTENT_LENGTH, "0"))
        return declared - len(data) if declared >= len(data) else None

    def _answered(self, server: Server, transport: asyncio.Transport, sent: bytes) -> None:
        server.requests_count += 1
        self._disarm()
        self._next_keepalive_close_time = self._loop.time() + self.keepalive_timeout
        transport.write(sent)

    def _answered_at_once(self) -> bool:
        """Whether the one request that is here has been answered, and nothing is left to do."""
        message, payload = self._messages[0]
        verdict, self._verdict = self._verdict, None
        server = cast("Server", self._manager)
        transport = self.transport
        if (
            server.at_once is None
            or transport is None
            or len(self._messages) != 1
            or not isinstance(message, RawRequestMessage)
            or not payload.is_eof()
            or message.should_close
            or message.upgrade
            or message.version != HttpVersion11
            or self._request_factory is None
            or self._task_handler is None
        ):
            return False
        writer = StreamWriter(self, self._loop)
        request = self._request_factory(message, payload, self, writer, self._task_handler)
        try:
            found = server.at_once(request, verdict)
        except Exception as error:  # noqa: BLE001 - a fault of ours; the library's way answers it with a 500
            server.note_error(500, error)
            return False
        if not isinstance(found, bytes):
            self._begun = found
            return False
        self._messages.popleft()
        if self._parser is not None:
            self._parser.message_consumed()
        self._answered(server, transport, found)
        return True

    def head_complete(self) -> None:
        """A request's headers are here and its handler has begun."""
        self._expects_head = False
        self._disarm()

    def expect_head(self) -> None:
        """The answer is out; the next bytes begin another request."""
        self._expects_head = True

    def is_idle(self) -> bool:
        """Whether no request is being answered and none has begun to arrive."""
        return self._expects_head

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """An answer for what is not HTTP, and for faults of ours; no content is echoed or logged."""
        self.head_complete()
        if request.writer.output_size > 0:
            raise ConnectionResetError("an error after the head of the answer was sent")
        cast("Server", self._manager).note_error(status, exc)
        if status >= 500:  # noqa: PLR2004 - a status is clearest by its number
            refusal = Refusal(APIError("The sidecar failed on this request."), close=True)
        elif isinstance(exc, LineTooLong):
            message = f"The request line or a header is longer than {_LINE_LIMIT_BYTES} bytes."
            refusal = invalid(message, status=431, close=True)
        else:
            refusal = invalid("This is not a well-formed HTTP/1.1 request.", close=True)
        return refusal_response(refusal, "messages", request_id(), [])

    def _arm(self) -> None:
        self._head_timer = self._loop.call_later(self._head_seconds, self.force_close)

    def _disarm(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None


class Server(web.Server):
    """Makes a `Connection` for each client; a client that hangs up cancels its handler."""

    def __init__(
        self,
        handler: Callable[[web.BaseRequest], Awaitable[web.StreamResponse]],
        settings: Settings,
        note_error: Callable[[int, BaseException | None], None],
        at_once: AtOnce | None = None,
        plain: Plain | None = None,
    ) -> None:
        super().__init__(handler, handler_cancellation=True)
        self._settings = settings
        self._open = 0
        self.note_error = note_error
        self.plain = plain
        """Answers the bytes of one whole request: what to send, or what was decided, or nothing."""
        self.at_once = at_once
        """Answers a request without a wait: the bytes to send, or what it has found out, or nothing."""

    def __call__(self) -> web.RequestHandler:
        """The protocol of the next connection."""
        return Connection(self, loop=asyncio.get_running_loop(), settings=self._settings)

    def connection_made(self, handler: web.RequestHandler, transport: asyncio.Transport) -> None:
        """Keep count; over the limit the newcomer is closed at once."""
        super().connection_made(handler, transport)
        self._open += 1
        if self._open > self._settings.connection_limit:
            transport.abort()

    def connection_lost(self, handler: web.RequestHandler, exc: BaseException | None = None) -> None:
        """Keep count."""
        self._open -= 1
        super().connection_lost(handler, exc)
