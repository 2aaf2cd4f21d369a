"""Server-sent events: the response that carries them, and a write that cannot hang for ever."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from aiohttp import web

from zlrs.wire import SSE_HEADERS

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Mapping

    from zlrs.results import Delta
    from zlrs.streams import AsyncStream

CHAT_PING = b": ping\n\n"
"""A comment: Chat has no event for it, and clients pass over it."""
STALL_SECONDS = 120.0
"""How long a client may leave its receive buffer full before its stream is cut."""


class EventResponse:
    """An open event stream to one client."""

    def __init__(self, response: web.StreamResponse) -> None:
        self._response = response

    @classmethod
    async def start(cls, request: web.Request, headers: Mapping[str, str]) -> EventResponse:
        """Send the status line and headers."""
        response = web.StreamResponse(headers={**headers, **SSE_HEADERS})
        await response.prepare(request)
        return cls(response)

    async def write(self, data: bytes) -> None:
        """Send, waiting while the client reads slowly.

        Raises:
            ConnectionError: The client is gone, or has read nothing for two minutes.
        """
        try:
            await asyncio.wait_for(self._response.write(data), STALL_SECONDS)
        except asyncio.TimeoutError as error:
            raise ConnectionError("the client stopped reading") from error

    async def finish(self) -> web.StreamResponse:
        """End the body. The connection lives on, also after an error: the client may be using it already."""
        await self._response.write_eof()
        return self._response


async def pieces(
    stream: AsyncStream, ping_seconds: float, ping: Callable[[], Awaitable[None]]
) -> AsyncIterator[Delta]:
    """The pieces of an answer; whenever none came for `ping_seconds`, `ping` is called meanwhile."""
    while True:
        if not await stream.wait(ping_seconds):
            await ping()
            continue
        try:
            yield await stream.__anext__()
        except StopAsyncIteration:
            return
