"""Pings of our own in a silent stream: by option only, after the upstream's head, between whole events.

For proxies and clients that give up on a connection without bytes long before the upstream does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from aiohttp import HttpVersion11

from zlrs_proxy.route import Endpoint
from zlrs_proxy.watch import Watch

if TYPE_CHECKING:
    from aiohttp import web

    from zlrs_proxy.respond import PlainResponse

_MESSAGES = b'event: ping\ndata: {"type":"ping"}\n\n'
# Chat has no such event; a comment is skipped by every reader of event streams.
_COMMENT = b": ping\n\n"
_EVENT_ENDS = (b"\n\n", b"\r\n\r\n", b"\r\r")
_TAIL_BYTES = 4


class Pinger:
    """Writes a ping whenever nothing has been sent for a while.

    Args:
        request: Whose answer it is.
        endpoint: Says which kind of ping its client reads.
        seconds: The silence.
    """

    def __init__(self, request: web.BaseRequest, endpoint: Endpoint, seconds: float) -> None:
        self._request = request
        ping = _MESSAGES if endpoint is Endpoint.MESSAGES else _COMMENT
        self._chunk = b"%x\r\n%b\r\n" % (len(ping), ping)
        self._seconds = seconds
        self._tail = b""
        self._watch = Watch()
        self._watch.wait(seconds, self._ping)

    def sent(self, piece: bytes) -> None:
        """A piece of the answer has been written."""
        self._tail = (self._tail + piece)[-_TAIL_BYTES:]
        self._watch.wait(self._seconds, self._ping)

    def stop(self) -> None:
        """The answer has ended."""
        self._watch.stop()

    def _ping(self) -> None:
        transport = self._request.transport
        if transport is None or transport.is_closing():
            return
        # A client that is behind gets bytes as soon as it reads; half an event must not be cut in two.
        is_between = not self._tail or self._tail.endswith(_EVENT_ENDS)
        if is_between and not self._request.protocol.writing_paused:
            transport.write(self._chunk)
        self._watch.wait(self._seconds, self._ping)


def pinger_of(
    request: web.BaseRequest, response: PlainResponse, endpoint: Endpoint, seconds: float | None
) -> Pinger | None:
    """A pinger for a plain event stream in chunks; None for everything else, and without the option."""
    if seconds is None or request.version != HttpVersion11 or "Content-Length" in response.headers:
        return None
    kind = response.headers.get("Content-Type", "").partition(";")[0].strip().lower()
    if kind != "text/event-stream" or "Content-Encoding" in response.headers:
        return None
    return Pinger(request, endpoint, seconds)
