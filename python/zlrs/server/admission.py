"""How many requests are let in at once, and when the next one should come back."""

from __future__ import annotations

import asyncio
import math
import time
from typing import TYPE_CHECKING

from zlrs.server.errors import overloaded

if TYPE_CHECKING:
    from collections.abc import Callable

SMOOTHING = 0.2
"""Weight of the newest answer in the mean duration."""

RETRY_LIMIT_SECONDS = 60
BATCH_SPARES = 4
"""Requests of low priority leave one of so many places to the others."""


class Slot:
    """A place in the queue, given back once."""

    def __init__(self, admission: Admission, started: float) -> None:
        self._admission: Admission | None = admission
        self._started = started

    def release(self) -> None:
        """Give the place back. May be called again."""
        if self._admission is not None:
            self._admission.leave(self._started)
            self._admission = None


class Admission:
    """Counts requests from admission to the end of their answer; `idle` is set while there are none.

    Used on the event loop only.

    Args:
        limit: Requests in at once, waiting and running.
        monotonic: Clock in seconds.
    """

    def __init__(self, limit: int, monotonic: Callable[[], float] = time.monotonic) -> None:
        self.limit = limit
        self.in_flight = 0
        self.refused = 0
        self.idle = asyncio.Event()
        self.idle.set()
        self._monotonic = monotonic
        self._mean_seconds = 1.0

    @property
    def has_room(self) -> bool:
        """Whether another one is let in now."""
        return self.in_flight < self.limit

    def enter(self, *, batch: bool = False) -> Slot:
        """Take a place.

        Args:
            batch: For a request of low priority: a share of the places is left to the others.

        Raises:
            Refusal: 529 with `retry-after` when all are taken.
        """
        limit = self.limit - self.limit // BATCH_SPARES if batch else self.limit
        if self.in_flight >= limit:
            self.refused += 1
            kind = " of priority `batch`" if batch else ""
            raise overloaded(
                f"{self.in_flight} requests are waiting or running, the limit{kind} is {limit}",
                retry_after_seconds=self.retry_after_seconds(),
                suggestion="Wait as long as retry-after says; `server.queue_limit` sets the limit",
            )
        self.in_flight += 1
        self.idle.clear()
        return Slot(self, self._monotonic())

    def leave(self, started: float) -> None:
        """Give a place back; called by its `Slot`."""
        self.in_flight -= 1
        if not self.in_flight:
            self.idle.set()
        taken = (self._monotonic() - started) / max(1, self.in_flight + 1)
        self._mean_seconds += SMOOTHING * (taken - self._mean_seconds)

    def retry_after_seconds(self) -> int:
        """When a place should be free: about one answer's time, 1 … 60 s."""
        return max(1, min(RETRY_LIMIT_SECONDS, math.ceil(self._mean_seconds)))
