"""Whether this machine, or the container around this process, is short of memory."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from zlrs_proxy.clock import Clock

_SHORT_BELOW = 0.1
_KEPT_SECONDS = 5.0
_MEMINFO = Path("/proc/meminfo")
_GROUP = Path("/sys/fs/cgroup")


class Memory:
    """Reads the share of memory that is free, at most every five seconds."""

    def __init__(self, clock: Clock, meminfo: Path = _MEMINFO, group: Path = _GROUP) -> None:
        self._clock = clock
        self._meminfo = meminfo
        self._group = group
        self._at = float("-inf")
        self._is_short = False

    def is_short(self) -> bool:
        """Less than a tenth is free; False where nothing can be read."""
        now = self._clock.monotonic()
        if now - self._at >= _KEPT_SECONDS:
            self._at = now
            self._is_short = min(self._machine(), self._container()) < _SHORT_BELOW
        return self._is_short

    def _machine(self) -> float:
        try:
            text = self._meminfo.read_text(encoding="ascii")
        except (OSError, UnicodeDecodeError):
            return 1.0
        total, free = (_kib(text, name) for name in ("MemTotal", "MemAvailable"))
        return free / total if total else 1.0

    def _container(self) -> float:
        try:
            limit = (self._group / "memory.max").read_text(encoding="ascii").strip()
            used = int((self._group / "memory.current").read_text(encoding="ascii"))
            return 1.0 - used / int(limit)
        except (OSError, ValueError, ZeroDivisionError):
            return 1.0


def _kib(text: str, name: str) -> int:
    match = re.search(rf"^{name}:\s+(\d+) kB$", text, re.MULTILINE)
    return int(match[1]) if match is not None else 0
