"""The one clock: deadlines by monotonic time, records by wall time. Tests inject their own."""

from __future__ import annotations

import time


class Clock:
    """Real time."""

    def monotonic(self) -> float:
        """Seconds, never going back."""
        return time.monotonic()

    def wall_ms(self) -> int:
        """Milliseconds since 1970."""
        return time.time_ns() // 1_000_000
