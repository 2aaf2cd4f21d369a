"""Answers that nobody waits for: a cache-only miss is computed on the side, so that the next ask is a hit."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from zlrs.server.errors import Refusal
from zlrs.server.log import log

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

LIMIT = 4
"""Fills that may be under way; more are left out, and the next cache-only ask may begin one."""


class Fills:
    """What is being computed for the graph alone. Used on the event loop only."""

    def __init__(self, limit: int = LIMIT) -> None:
        self._limit = limit
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def begin(self, node: str, work: Callable[[], Awaitable[None]]) -> bool:
        """Compute the answer of a node, unless that is under way.

        Args:
            node: What is asked, as the graph calls it.
            work: Computes and stores it.

        Returns:
            Whether it is under way now.
        """
        if node in self._tasks:
            return True
        if not node or len(self._tasks) >= self._limit:
            return False
        self._tasks[node] = asyncio.ensure_future(self._run(node, work))
        return True

    async def _run(self, node: str, work: Callable[[], Awaitable[None]]) -> None:
        try:
            await work()
        except Refusal as refusal:
            # A full queue, a prompt that does not fit, the end of the process: who asks itself hears it.
            log("fill_refused", type=refusal.error.type)
        except Exception as error:  # noqa: BLE001 - nobody waits for this answer
            log("fill_failed", error=repr(error))
        finally:
            self._tasks.pop(node, None)

    def __len__(self) -> int:
        return len(self._tasks)

    async def close(self) -> None:
        """End what is under way."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
