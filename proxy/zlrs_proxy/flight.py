"""Single flight: of the same asks that come together, one goes upstream and the others wait a little."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from enum import Enum

_REMEMBERED = 1024


class Outcome(Enum):
    """How a flight ended."""

    STORED = "stored"
    """The answer is complete, checked and in the graph: ask the graph again."""
    NOT_STORED = "not_stored"
    """The answer came and may not be shared: everyone goes alone."""
    LOST = "lost"
    """No whole answer came: one of those who wait leads the next flight."""


class Flight:
    """One ask on its way upstream."""

    def __init__(self) -> None:
        self._done: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        self.followers = 0
        self.carrier: asyncio.Task[None] | None = None
        """Reads the answer on for the followers after the leader's client has gone."""

    async def wait(self, seconds: float) -> Outcome | None:
        """How the flight ended; None when that takes longer than `seconds`."""
        self.followers += 1
        try:
            done, _ = await asyncio.wait({self._done}, timeout=seconds)
        finally:
            self.followers -= 1
            if not self.followers and self.carrier is not None:
                self.carrier.cancel()
        return self._done.result() if done else None

    def end(self, outcome: Outcome) -> None:
        """Tell everyone who waits."""
        if not self._done.done():
            self._done.set_result(outcome)


class Flights:
    """All flights by what they ask."""

    def __init__(self) -> None:
        self._flights: dict[str, Flight] = {}
        self._landed: OrderedDict[str, int] = OrderedDict()
        self.count = 0
        """Flights that have stored an answer so far: the time on which `landed_since` is told."""

    def join(self, key: str) -> Flight | None:
        """The flight that is under way for this ask."""
        return self._flights.get(key)

    def lead(self, key: str) -> Flight:
        """Begin a flight; there must be none."""
        flight = self._flights[key] = Flight()
        return flight

    def end(self, key: str, flight: Flight, outcome: Outcome) -> None:
        """End a flight; the next ask begins another."""
        if self._flights.get(key) is flight:
            del self._flights[key]
        if outcome is Outcome.STORED:
            self.count += 1
            self._landed[key] = self.count
            self._landed.move_to_end(key)
            if len(self._landed) > _REMEMBERED:
                self._landed.popitem(last=False)
        flight.end(outcome)

    def landed_since(self, key: str, count: int) -> bool:
        """Whether this ask's answer was stored after `count` was read.

        A decision takes a moment, in which the flight that it should have joined may have landed.
        """
        return self._landed.get(key, 0) > count

    def __len__(self) -> int:
        return len(self._flights)
