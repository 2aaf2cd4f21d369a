"""A deadline on silence: one timer for each exchange, re-armed only when it fires."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


class Watch:
    """Acts once when nothing has been heard for a while.

    Each call costs one clock read: streams of many small events do not pay for cancelled timers.
    """

    __slots__ = ("_expire", "_handle", "_last", "_loop", "_resting", "_seconds")

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._seconds = 0.0
        self._expire: Callable[[], None] | None = None
        self._last = 0.0
        self._resting = True
        self._handle: asyncio.TimerHandle | None = None

    def wait(self, seconds: float, expire: Callable[[], None]) -> None:
        """From now on wait this long, and then do that."""
        self._last = self._loop.time()
        self._expire = expire
        self._resting = False
        if self._handle is not None and seconds < self._seconds:
            self._handle.cancel()
            self._handle = None
        self._seconds = seconds
        if self._handle is None:
            self._handle = self._loop.call_at(self._last + seconds, self._fire)

    def rest(self) -> None:
        """It was heard; nothing is waited for at the moment."""
        self._resting = True

    def stop(self) -> None:
        """Watch no longer."""
        self._resting = True
        self._expire = None
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def _fire(self) -> None:
        self._handle = None
        if self._resting:
            return
        due = self._last + self._seconds
        if self._loop.time() < due:
            self._handle = self._loop.call_at(due, self._fire)
        elif self._expire is not None:
            self._resting = True
            self._expire()
