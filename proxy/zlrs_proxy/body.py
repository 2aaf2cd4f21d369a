"""A request's body: counted as it comes, held as far as the graph needs it, else passed on piece by piece."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aiohttp import web

from zlrs.errors import TimeoutError as DeadlineError
from zlrs_proxy.accept import too_large
from zlrs_proxy.refuse import Refusal, invalid
from zlrs_proxy.watch import Watch

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

_SLICE_BYTES = 256 * 1024
_ONE_WRITE_BYTES = 512 * 1024


class _SilentError(Exception):
    """The client has stopped sending in the middle of its body."""


class Body:
    """Reads the body once.

    Args:
        request: The request, of which nothing has been read.
        length: Its declared length.
        limit: Most bytes it may have.
        silence_seconds: Longest pause between two pieces.
    """

    def __init__(
        self, request: web.BaseRequest, length: int | None, limit: int, silence_seconds: float
    ) -> None:
        self._content = request.content
        self._limit = limit
        self._silence_seconds = silence_seconds
        self._watch: Watch | None = None
        self._count = 0
        self._closed = False
        self.length = length
        self.exists = request.body_exists
        self.held = b""
        """What has been read so far and kept."""
        self.complete = not self.exists
        """Whether `held` is the whole body."""
        self.failure: Refusal | None = None
        """Why reading ended early, when it did."""

    @property
    def is_here(self) -> bool:
        """Whether all of it has arrived, so that nothing has to be waited for."""
        return self._content.is_eof()

    async def hold(self, up_to: int) -> bool:
        """Keep the body in memory; False when it is longer than `up_to` (what was read is kept).

        Raises:
            Refusal: The body is over its limit, malformed, or stopped coming.
        """
        if self.complete:
            return True
        if self.length is not None and self.length > up_to:
            return False
        if self._content.is_eof() and self._content.exception() is None and self._count == 0:
            return self._take(up_to)
        pieces: list[bytes] = []
        while self._count <= up_to:
            piece = await self._piece()
            if not piece:
                self.complete = True
                break
            pieces.append(piece)
        self.held = b"".join(pieces)
        return self.complete

    def hold_now(self, up_to: int) -> bool:
        """`hold` without a wait; False also when the body is not here."""
        if self.complete:
            return True
        if self.length is None or self.length > up_to or self._count:
            return False
        return self._content.is_eof() and self._content.exception() is None and self._take(up_to)

    def _take(self, up_to: int) -> bool:
        # All has arrived: no wait, no deadline.
        self.held = self._content.read_nowait()
        self._count = len(self.held)
        if self._count > self._limit:
            self.failure = too_large(self._limit, None)
            raise self.failure
        self.complete = self._count <= up_to
        return self.complete

    def replace(self, body: bytes) -> None:
        """Send another body instead of the one that is held whole."""
        self.held = body
        self.length = len(body)

    async def stream(self) -> AsyncIterator[bytes]:
        """What is held, in slices, and then the rest as it comes. May be run once.

        Raises:
            Refusal: As in `hold`; it is also kept in `failure`.
        """
        for start in range(0, len(self.held), _SLICE_BYTES):
            yield self.held[start : start + _SLICE_BYTES]
        while not self.complete:
            piece = await self._piece()
            if piece:
                yield piece
            else:
                self.complete = True

    def to_send(self) -> bytes | AsyncIterator[bytes] | None:
        """The body as the HTTP library takes it: short ones in one write with the head, others in slices."""
        if not self.exists:
            return None
        if self.complete and len(self.held) <= _ONE_WRITE_BYTES:
            return self.held
        return self.stream()

    def close(self) -> None:
        """Read no more."""
        self._closed = True
        if self._watch is not None:
            self._watch.stop()

    async def _piece(self) -> bytes:
        if self._closed:
            raise ConnectionResetError("the request is over")
        watch = self._watch
        if watch is None:
            watch = self._watch = Watch()
        watch.wait(self._silence_seconds, self._silent)
        try:
            piece = await self._content.readany()
        except _SilentError:
            silence = f"No byte of the request body came for {self._silence_seconds:g} s."
            self.failure = Refusal(
                DeadlineError(silence, suggestion="Send the body without pauses.", status=408),
                close=True,
            )
            raise self.failure from None
        except web.RequestPayloadError:
            self.failure = invalid("The request body is not well framed.", close=True)
            raise self.failure from None
        finally:
            watch.rest()
        self._count += len(piece)
        if self._count > self._limit:
            self.failure = too_large(self._limit, None)
            raise self.failure
        return piece

    def _silent(self) -> None:
        self._content.set_exception(_SilentError())
