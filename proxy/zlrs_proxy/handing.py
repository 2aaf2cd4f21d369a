"""Pieces of an answer handed on in the very call that brings them: no task is woken for each."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from collections.abc import Callable

    from aiohttp.streams import StreamReader


async def hand_on(content: StreamReader, take: Callable[[bytes], bool]) -> None:
    """Give every piece to `take` as it arrives, until it returns false or nothing more is to come.

    What is still in the stream afterwards, its end or its error, is for whoever reads next. Flow control
    stays with the stream: while nobody reads, it pauses its connection.

    Args:
        content: The library's stream, which nobody else reads meanwhile.
        take: Must not raise, and must not wait.
    """
    if content.is_eof() or content.exception() is not None:
        return
    piece = content.read_nowait()
    if piece and not take(piece):
        return
    # The read may have resumed the connection and so brought more, or the end, which wake nobody any more.
    if content._buffer or content.is_eof() or content.exception() is not None:  # noqa: SLF001 - as below
        return
    hand = _Hand(content, take)
    # Where the library keeps the future of the one who waits for the next piece.
    content._waiter = waiter = cast("asyncio.Future[None]", hand)  # noqa: SLF001 - there is no public place
    try:
        await hand.stopped
    finally:
        if content._waiter is waiter:  # noqa: SLF001 - as above
            content._waiter = None  # noqa: SLF001 - as above


class _Hand:
    """Stands in for a future: where that would wake its task, this reads."""

    __slots__ = ("_content", "_take", "stopped")

    def __init__(self, content: StreamReader, take: Callable[[bytes], bool]) -> None:
        self._content = content
        self._take = take
        self.stopped: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def done(self) -> bool:
        """The library asks before it wakes; it takes what it has woken out of its place."""
        return False

    def set_result(self, _result: None) -> None:
        """A piece has arrived, or the end of a chunk, or of everything."""
        content = self._content
        if content.is_eof() or self.stopped.done():
            self._stop()
            return
        piece = _taken_out(content)
        if piece and not self._take(piece):
            self._stop()
            return
        content._waiter = cast("asyncio.Future[None]", self)  # noqa: SLF001 - as above

    def set_exception(self, _error: BaseException) -> None:
        """The stream has broken; the next read says how."""
        self._stop()

    def _stop(self) -> None:
        if not self.stopped.done():
            self.stopped.set_result(None)


def _taken_out(content: StreamReader) -> bytes:
    """All that is in the stream. Its own methods would resume the parser, in the midst of which this runs."""
    buffer, splits = content._buffer, content._http_chunk_splits  # noqa: SLF001 - see above
    if splits:
        splits.clear()
    if not buffer:
        return b""
    piece = buffer.popleft() if len(buffer) == 1 else b"".join(buffer)
    buffer.clear()
    content._size = 0  # noqa: SLF001 - see above
    content._cursor += len(piece)  # noqa: SLF001 - see above
    return piece
