"""Streams of a running answer: blocking for threads, awaitable for event loops. Leaving either cancels."""

from __future__ import annotations

import asyncio
import os
import weakref
from collections import deque
from typing import TYPE_CHECKING, NoReturn

from zlrs._core import CoreError
from zlrs.errors import EngineClosedError, from_core
from zlrs.results import Completion, Delta, Finish, event_from_native

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from typing_extensions import Self

    from zlrs.native import NativeGeneration

WAIT_MS = 100
"""How long a blocking wait stays in native code, so that Ctrl-C is answered within it."""


class ForkedError(EngineClosedError):
    """The engine was used in a fork of the process that loaded it."""

    def __init__(self, process: int) -> None:
        super().__init__(
            f"this engine was loaded in process {process} and used in its fork {os.getpid()}, where its "
            "threads do not exist. Load it after the fork, or start processes with the `spawn` method"
        )


class ClosedError(EngineClosedError):
    """The engine or stream was used after `close()`."""


def reraise(error: CoreError) -> NoReturn:
    """Raise the catalogue's class for an error of the native module."""
    raise from_core(error) from error


class _Collected:
    """The part both streams share: pieces so far, and the end."""

    def __init__(self, generation: NativeGeneration) -> None:
        self._generation = generation
        self._process = os.getpid()
        self._deltas: list[Delta] = []
        self._finish: Finish | None = None
        self._closed = False

    @property
    def input_tokens(self) -> int:
        """Tokens of the prompt, known before any work."""
        return self._generation.input_tokens

    @property
    def cached_tokens(self) -> int:
        """Tokens of the prompt that need not be computed; 0 until work has begun, final from then on."""
        return self._generation.cached_tokens or 0

    @property
    def has_begun(self) -> bool:
        """Whether work on it has begun, as far as its events have been taken."""
        return self._generation.cached_tokens is not None

    def cancel(self) -> None:
        """Ask the engine to end this answer; it is still to be read to its end, which says `cancelled`."""
        self._generation.cancel()

    @property
    def finish(self) -> Finish:
        """How it ended.

        Raises:
            RuntimeError: The stream has not been read to its end.
        """
        if self._finish is None:
            raise RuntimeError("the stream has not ended; read it to its end first")
        return self._finish

    @property
    def completion(self) -> Completion:
        """The whole answer, once the stream has been read to its end."""
        return self.finish.with_deltas(self._deltas)

    def _require_process(self) -> None:
        if os.getpid() != self._process:
            raise ForkedError(self._process)

    def _keep(self, event: Delta | Finish) -> None:
        if isinstance(event, Delta):
            self._deltas.append(event)
        else:
            self._finish = event


class Stream(_Collected):
    """An iterator over the pieces of one answer, for one thread.

    Ctrl-C, an exception in the loop body of a `with`, `close()` and dropping the object cancel the answer.
    """

    def __init__(self, generation: NativeGeneration) -> None:
        super().__init__(generation)
        self._waiting: deque[Delta | Finish] = deque()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Delta:
        self._require_process()
        while not self._waiting:
            if self._finish is not None or self._closed:
                raise StopIteration
            try:
                events = self._generation.wait(WAIT_MS)
            except CoreError as error:
                self._closed = True
                reraise(error)
            except BaseException:
                self.close()
                raise
            self._waiting.extend(event_from_native(event) for event in events)
        event = self._waiting.popleft()
        self._keep(event)
        if isinstance(event, Delta):
            return event
        raise StopIteration

    def close(self) -> None:
        """Cancel what is still running."""
        if not self._closed:
            self._closed = True
            self._generation.cancel()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class AsyncStream(_Collected):
    """An asynchronous iterator over the pieces of one answer, bound to the running event loop.

    Cancelling the task that iterates cancels the answer; so do `aclose()`, leaving the `async with`, and
    dropping the object. Events are taken from the native side as they come, so a slow reader holds nobody up;
    what waits is bounded by the answer's length.

    Args:
        generation: The submitted work.
        on_end: Called once, on the loop, when the engine has finished, failed or been told to stop.
    """

    def __init__(
        self, generation: NativeGeneration, *, on_end: Callable[[AsyncStream], None] | None = None
    ) -> None:
        super().__init__(generation)
        self._loop = asyncio.get_running_loop()
        self._waiting: deque[Delta | Finish] = deque()
        self._failure: Exception | None = None
        self._ready = asyncio.Event()
        self._begun = asyncio.Event()
        self._on_end = on_end
        self._watched: int | None = generation.fileno()
        # The loop must not keep the stream alive: dropping the stream cancels the answer.
        self._loop.add_reader(self._watched, _take, weakref.ref(self))

    def take(self) -> None:
        """Move what the native side has ready into this stream; called by the loop."""
        try:
            events = [event_from_native(event) for event in self._generation.drain()]
        except CoreError as error:
            self.fail(from_core(error))
            return
        if events or self._generation.cached_tokens is not None:
            self._begun.set()
        self._waiting.extend(events)
        if events:
            self._ready.set()
            if isinstance(events[-1], Finish):
                self._unwatch()
                self._end()

    def _unwatch(self) -> None:
        if self._watched is not None:
            self._loop.remove_reader(self._watched)
            self._watched = None

    def fail(self, error: Exception) -> None:
        """End the stream for its reader with `error`; what was produced before is still delivered."""
        self._unwatch()
        self._generation.cancel()
        if self._failure is None:
            self._failure = error
        self._begun.set()
        self._ready.set()
        self._end()

    def _end(self) -> None:
        """Tell the owner, once, that the engine works on this answer no more."""
        if self._on_end is not None:
            told, self._on_end = self._on_end, None
            told(self)

    async def begun(self, timeout_seconds: float | None = None) -> bool:
        """Wait until work has begun or ended, so that `cached_tokens` is final; False when not in time."""
        if self._generation.cached_tokens is not None or self._closed:
            return True
        try:
            await asyncio.wait_for(self._begun.wait(), timeout_seconds)
        except asyncio.TimeoutError:
            return False
        return True

    async def wait(self, timeout_seconds: float | None = None) -> bool:
        """Wait until something can be read; False when nothing came in time."""
        if self._waiting or self._failure is not None or self._finish is not None or self._closed:
            return True
        self._ready.clear()
        try:
            await asyncio.wait_for(self._ready.wait(), timeout_seconds)
        except asyncio.TimeoutError:
            return False
        return True

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Delta:
        self._require_process()
        try:
            while not self._waiting and self._failure is None and self._finish is None and not self._closed:
                await self.wait()
        except BaseException:
            await self.aclose()
            raise
        if self._waiting:
            event = self._waiting.popleft()
            self._keep(event)
            if isinstance(event, Delta):
                return event
            await self.aclose()
        if self._failure is not None and self._finish is None:
            await self.aclose()
            raise self._failure
        raise StopAsyncIteration

    async def aclose(self) -> None:
        """Cancel what is still running and stop watching. May be called again."""
        if self._closed:
            return
        self._closed = True
        self._unwatch()
        if self._finish is None:
            self._generation.cancel()
        self._begun.set()
        self._ready.set()
        self._end()

    def __del__(self) -> None:
        if not self._closed and self._watched is not None and not self._loop.is_closed():
            # Collection may happen in any thread, and the descriptor must stay open until it is unwatched.
            self._loop.call_soon_threadsafe(_release, self._loop, self._watched, self._generation)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()


def _take(stream: weakref.ref[AsyncStream]) -> None:
    alive = stream()
    if alive is not None:
        alive.take()


def _release(loop: asyncio.AbstractEventLoop, descriptor: int, generation: NativeGeneration) -> None:
    loop.remove_reader(descriptor)
    generation.cancel()
