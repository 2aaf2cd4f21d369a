"""A circuit breaker: an upstream that fails again and again is passed over for a while.

It only orders the upstreams there are; where every one is passed over, the first is asked all the same, so
that the breaker never makes an outage of its own.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from zlrs_proxy.clock import Clock

# What says that an upstream, and not the caller, is at fault.
_FAILED = frozenset({500, 502, 503, 504, 520, 521, 522, 523, 524, 529})
# What says nothing about it: the caller was slow, or asked too often.
_NEUTRAL = frozenset({408, 409, 425, 429})


class Health(Enum):
    """What one call said about an upstream."""

    GOOD = "good"
    FAILED = "failed"
    NEUTRAL = "neutral"


def health_of(status: int) -> Health:
    """What a status says: any answer to a wrong request shows an upstream that works."""
    if status in _FAILED:
        return Health.FAILED
    return Health.NEUTRAL if status in _NEUTRAL else Health.GOOD


class Breaker:
    """Closed, open after `failures` in a row, half open after `open_seconds`: then one call tries.

    Every `admits()` that said yes is followed by one `record()`.
    """

    def __init__(self, clock: Clock, failures: int, open_seconds: float) -> None:
        self._clock = clock
        self._limit = failures
        self._open_seconds = open_seconds
        self._failures = 0
        self._opened: float | None = None
        self._is_probing = False

    @property
    def state(self) -> str:
        """`closed`, `open` or `half_open`."""
        if self._opened is None:
            return "closed"
        return "half_open" if self._clock.monotonic() - self._opened >= self._open_seconds else "open"

    def admits(self) -> bool:
        """Whether a call may be made now; in half-open state only for one at a time."""
        state = self.state
        if state == "half_open" and not self._is_probing:
            self._is_probing = True
            return True
        return state == "closed"

    def record(self, health: Health) -> None:
        """Learn from a call. What says nothing frees the probe's place and changes no count."""
        self._is_probing = False
        if health is Health.GOOD:
            self._failures = 0
            self._opened = None
        elif health is Health.FAILED:
            self._failures += 1
            if self._opened is not None or self._failures >= self._limit:
                self._opened = self._clock.monotonic()
