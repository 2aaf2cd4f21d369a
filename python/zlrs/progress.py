"""Progress for long work: a bar on a terminal, a line now and then elsewhere, silence when asked.

`ZLRS_NO_PROGRESS` (any value) silences it; `NO_COLOR` is honoured by rich. Everything goes to stderr, so
that standard output stays data.
"""

from __future__ import annotations

import os
import sys
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import TracebackType

    from typing_extensions import Self

PLAIN_INTERVAL_S = 5.0
"""Seconds between lines where there is no terminal."""


def _bytes(count: float) -> str:
    """Bytes for people: `491.4 MB`."""
    for unit in ("B", "kB", "MB"):
        if count < 1000:  # noqa: PLR2004 - decimal units
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.2f} GB"


class StepProgress:
    """One task counted in steps: a bar with the time left on a terminal, a line now and then elsewhere."""

    def __init__(self, label: str) -> None:
        self._label = label
        self._silent = "ZLRS_NO_PROGRESS" in os.environ
        self._terminal = sys.stderr.isatty() and not self._silent
        self._started = self._printed = time.monotonic()
        self._stage = ""
        self._first = 0

    def update(self, stage: str, done: int, total: int, what: str = "") -> None:
        """Say that so many steps of a stage are done, and what was found last."""
        if self._silent:
            return
        now = time.monotonic()
        if stage != self._stage:
            # What came before the first step, such as loading a model, says nothing of the steps.
            self._stage, self._started, self._first = stage, now, done
        ended = done >= total
        interval_s = 0.1 if self._terminal else PLAIN_INTERVAL_S
        if not ended and now - self._printed < interval_s:
            return
        self._printed = now
        line = f"{self._label}, {stage}: {done} of {total}"
        if done > self._first and not ended:
            left_s = (now - self._started) / (done - self._first) * (total - done)
            line += f", {clock(left_s)} left"
        if what:
            line += f"; {what}"
        if self._terminal:
            width = os.get_terminal_size(sys.stderr.fileno()).columns - 1
            print(f"\r\x1b[K{line[:width]}", end="\n" if ended else "", file=sys.stderr, flush=True)
        else:
            print(line, file=sys.stderr, flush=True)


def clock(seconds: float) -> str:
    """A duration for people: `2 min 05 s`."""
    minutes, rest = divmod(round(max(seconds, 0.0)), 60)
    return f"{minutes} min {rest:02} s" if minutes else f"{rest} s"


class Progress:
    """One task counted in bytes, or in pieces with a name of their own.

    Use as a context manager and call `update(done)`; going backwards is allowed (a part that failed its
    check starts again). Cheap enough to be called per buffer.
    """

    def __init__(self, label: str, total: int, *, pieces: str | None = None) -> None:
        self._label = label
        self._total = max(total, 1)
        self._pieces = pieces
        self._silent = "ZLRS_NO_PROGRESS" in os.environ
        self._terminal = sys.stderr.isatty() and not self._silent
        self._started = self._printed = time.monotonic()
        self._done = 0
        self._bar: object = None

    def __enter__(self) -> Self:
        if self._terminal:
            from rich.console import Console
            from rich.progress import (
                BarColumn,
                DownloadColumn,
                MofNCompleteColumn,
                TextColumn,
                TimeRemainingColumn,
                TransferSpeedColumn,
            )
            from rich.progress import Progress as Bar

            count = (
                (DownloadColumn(), TransferSpeedColumn())
                if self._pieces is None
                else (MofNCompleteColumn(), TextColumn(self._pieces))
            )
            bar = Bar(
                TextColumn("{task.description}"),
                BarColumn(),
                *count,
                TimeRemainingColumn(),
                console=Console(stderr=True),
            )
            self._task = bar.add_task(self._label, total=self._total)
            bar.start()
            self._bar = bar
        elif not self._silent:
            print(f"{self._label}: {self._shown(self._total)}", file=sys.stderr, flush=True)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        from_start = time.monotonic() - self._started
        if self._terminal:
            from rich.progress import Progress as Bar

            if isinstance(self._bar, Bar):
                self._bar.stop()
        elif not self._silent and error is None:
            print(f"{self._label}: done in {from_start:.1f} s", file=sys.stderr, flush=True)

    def _shown(self, count: int) -> str:
        return _bytes(count) if self._pieces is None else f"{count} {self._pieces}"

    def update(self, done: int) -> None:
        """Set how many bytes or pieces of the total are done."""
        self._done = done
        if self._terminal:
            from rich.progress import Progress as Bar

            if isinstance(self._bar, Bar):
                self._bar.update(self._task, completed=done)
            return
        now = time.monotonic()
        if not self._silent and now - self._printed >= PLAIN_INTERVAL_S:
            self._printed = now
            percent = 100 * done // self._total
            print(
                f"{self._label}: {percent} % ({self._shown(done)} of {self._shown(self._total)})",
                file=sys.stderr,
                flush=True,
            )
