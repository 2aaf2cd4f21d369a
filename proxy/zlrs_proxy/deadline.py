"""A deadline on the code inside a `with` block, without a task of its own."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import TracebackType


class Deadline:
    """Cancels the current task when the block takes longer; the block then ends with `asyncio.TimeoutError`.

    `asyncio.wait_for` makes a task for each call before Python 3.12, and 3.10 has no `asyncio.timeout`.
    """

    __slots__ = ("_expired", "_handle", "_seconds", "_task")

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._expired = False

    def __enter__(self) -> None:
        task = asyncio.current_task()
        if task is None:
            raise RuntimeError("a deadline needs a task")
        self._task = task
        self._handle = asyncio.get_running_loop().call_later(self._seconds, self._expire)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._handle.cancel()
        if not self._expired or kind is not asyncio.CancelledError:
            return
        uncancel = getattr(self._task, "uncancel", None)
        if uncancel is not None and uncancel() > 0:
            return  # somebody else has cancelled the task too
        raise asyncio.TimeoutError from error

    def _expire(self) -> None:
        self._expired = True
        self._task.cancel()
