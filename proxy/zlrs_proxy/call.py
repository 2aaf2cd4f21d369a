"""One call upstream: opened, read once with a copy to the tap, ended once. It can outlive its client."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import aiohttp

from zlrs.errors import APIError
from zlrs_proxy.forward import UpstreamError
from zlrs_proxy.handing import hand_on
from zlrs_proxy.refuse import Refusal
from zlrs_proxy.watch import Watch

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from zlrs_proxy.body import Body
    from zlrs_proxy.direct import Answer
    from zlrs_proxy.tap import Tap


class _IdleError(Exception):
    """The upstream has been silent for too long in the middle of an answer."""


class Call:
    """An upstream call with its tap.

    Args:
        opening: Sends the request and returns at the head of the answer.
        body: The request's body.
        tap: Gets a copy.
        idle_seconds: Longest silence in the middle of an answer.
        ended: Called once, with whether the answer is whole. The tap has its status, 0 when none came.
        may_outlive: Whether others may wait for the answer after its client has gone.
    """

    def __init__(
        self,
        opening: Coroutine[None, None, Answer],
        body: Body,
        tap: Tap,
        idle_seconds: float,
        ended: Callable[[bool], None],
        *,
        may_outlive: bool,
    ) -> None:
        self._coroutine: Coroutine[None, None, Answer] | None = opening
        self._opening: asyncio.Task[Answer] | None = None
        if may_outlive:
            self._coroutine = None
            self._opening = asyncio.ensure_future(opening)
            self._opening.add_done_callback(_retrieve)
        self._body = body
        self._idle_seconds = idle_seconds
        self._ended: Callable[[bool], None] | None = ended
        self._answer: Answer | None = None
        self._closed: asyncio.Future[None] | None = None
        self._watch = Watch()
        self.tap = tap

    @property
    def was_opened(self) -> bool:
        """Whether the head of an answer has come."""
        return self._answer is not None

    async def opened(self) -> Answer:
        """The answer's head. Where the call may outlive its client, being cancelled does not cancel it.

        Raises:
            UpstreamError: No answer.
            Refusal: The client's own body failed.
        """
        if self._answer is None:
            self._answer = await self._open()
            self.tap.begin(self._answer.status, self._answer.raw_headers)
            connection = self._answer.connection
            if connection is not None and connection.protocol is not None:
                self._closed = connection.protocol.closed
            if self._closed is not None:
                self._closed.add_done_callback(self._connection_lost)
        return self._answer

    async def _open(self) -> Answer:
        if self._opening is not None:
            return await asyncio.shield(self._opening)
        opening, self._coroutine = self._coroutine, None
        if opening is None:
            raise RuntimeError("a call is opened once")
        return await opening

    async def piece(self) -> bytes:
        """The next piece of the body, copied; empty at the end.

        Raises:
            UpstreamError: The answer broke off.
        """
        answer = self._answer or await self.opened()
        if answer.content.is_eof() and answer.content.exception() is None:
            # All has arrived: no wait, no deadline.
            piece = answer.content.read_nowait()
            self.tap.feed(piece)
            return piece
        self._watch.wait(self._idle_seconds, self._silent)
        try:
            piece = await answer.content.readany()
        except (_IdleError, aiohttp.ClientError, OSError) as error:
            kind = "idle" if isinstance(error, _IdleError) else "cut"
            raise UpstreamError(
                kind, Refusal(APIError("The upstream's answer broke off.", status=502))
            ) from error
        finally:
            self._watch.rest()
        self.tap.feed(piece)
        return piece

    async def hand_on(self, take: Callable[[bytes], bool]) -> None:
        """Give pieces to `take` as they arrive, until it returns false or `piece` has to say what comes."""
        answer = self._answer or await self.opened()
        tap, watch = self.tap, self._watch

        def taken(piece: bytes) -> bool:
            watch.wait(self._idle_seconds, self._silent)
            tap.feed(piece)
            return take(piece)

        watch.wait(self._idle_seconds, self._silent)
        try:
            await hand_on(answer.content, taken)
        finally:
            watch.rest()

    def wait_for_client(self, seconds: float, give_up: Callable[[], None]) -> None:
        """A piece is being written to the client, who has this long to make room for it."""
        self._watch.wait(seconds, give_up)

    def is_whole(self) -> bool:
        """Whether all of the answer has been seen, also where the transport has not said so."""
        return self._answer is not None and self.tap.has_ended()

    def finish(self) -> None:
        """The answer has been read to its end; its connection can serve again, unless we still send."""
        if self._answer is not None and self._body.complete:
            self._answer.release()
        elif self._answer is not None:
            self._answer.close()
        self._end(whole=True)

    def fail(self) -> None:
        """There is no whole answer; the connection is closed at once."""
        self._close()
        self._end(whole=False)

    def leave(self) -> None:
        """The client has gone. What is whole is kept; the upstream is closed at once."""
        whole = self.is_whole()
        self._close()
        self._end(whole=whole)

    async def carry(self) -> None:
        """Read on without a client, for those who wait for the answer."""
        try:
            while await self.piece():
                pass
        except (UpstreamError, Refusal):
            self.fail()
        else:
            self.finish()

    def carried(self, task: asyncio.Task[None]) -> None:
        """`carry` is done. Cancelled before its first step it has run nothing, so the end is made here."""
        if task.cancelled():
            self.leave()

    def _connection_lost(self, closed: asyncio.Future[None]) -> None:
        """Wake the reader. After chunks that are not well framed the library closes and tells nobody."""
        if not closed.cancelled():
            closed.exception()
        if self._answer is not None:
            content = self._answer.content
            if not content.is_eof() and content.exception() is None:
                content.set_exception(aiohttp.ClientPayloadError("the connection was lost"))

    def _silent(self) -> None:
        if self._answer is not None:
            self._answer.content.set_exception(_IdleError())

    def _close(self) -> None:
        if self._answer is not None:
            self._answer.close()
        elif self._opening is None:
            if self._coroutine is not None:
                self._coroutine.close()
        elif not self._opening.done():
            self._opening.cancel()
            # Before Python 3.12 an answer that comes in the same moment outruns the cancellation.
            self._opening.add_done_callback(_close_answer)
        else:
            _close_answer(self._opening)

    def _end(self, *, whole: bool) -> None:
        self._watch.stop()
        if self._closed is not None:
            # The connection outlives this call in the pool; what it holds must not grow with every call.
            self._closed.remove_done_callback(self._connection_lost)
        if self._ended is not None:
            ended, self._ended = self._ended, None
            ended(whole)


def _close_answer(task: asyncio.Future[Answer]) -> None:
    if not task.cancelled() and task.exception() is None:
        task.result().close()


def _retrieve(task: asyncio.Future[Answer]) -> None:
    """An error that nobody waits for any more is not an error of the program."""
    if not task.cancelled():
        task.exception()
