"""After the answer is out: validate, store, count. In a worker thread, bounded, not on the caller's time."""

from __future__ import annotations

import asyncio
import logging
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from zlrs_proxy.coding import CodingError

if TYPE_CHECKING:
    from collections.abc import Callable

    from zlrs.graph import Decision
    from zlrs_proxy.clock import Clock
    from zlrs_proxy.keeper import Keeper
    from zlrs_proxy.tap import Tap

_LOG = logging.getLogger("zlrs_proxy")

STORED = "stored"
_NOTE_SECONDS = 0.05
_NOTED_FOR_ONE = 16


def is_read(decision: Decision) -> bool:
    """Whether the graph looks at the answer itself: to keep it, or to compare it with what was served."""
    return decision.kind == "miss" or decision.recheck


class Settler:
    """One worker thread in front of the graph's writer.

    Args:
        keeper: Has the graph where answers go.
        clock: Wall time of the record.
        queue_limit: Most answers waiting. Past it answers are not kept; the requests are not slowed.
        report: Called on the loop with every result.
    """

    def __init__(self, keeper: Keeper, clock: Clock, queue_limit: int, report: Callable[[str], None]) -> None:
        self._keeper = keeper
        self._clock = clock
        self._queue_limit = queue_limit
        self._report = report
        self._worker = ThreadPoolExecutor(max_workers=1, thread_name_prefix="zlrs-settle")
        self._waiting: set[asyncio.Future[str]] = set()
        self._noted: list[tuple[Decision, Tap, bool]] = []
        self._noting: asyncio.TimerHandle | None = None

    def submit(self, decision: Decision, tap: Tap, complete: bool, done: Callable[[str], None]) -> None:
        """Queue one answer; `done` hears the result on the loop."""
        if not is_read(decision):
            done(self._note(decision, tap, complete))
            return
        if len(self._waiting) >= self._queue_limit:
            self._report("queue_full")
            done("queue_full")
            return
        future = asyncio.get_running_loop().run_in_executor(
            self._worker, self._settle, decision, tap, complete
        )
        self._waiting.add(future)

        def finished(result: asyncio.Future[str]) -> None:
            self._waiting.discard(result)
            text = "error" if result.cancelled() else result.result()
            self._report(text)
            done(text)

        future.add_done_callback(finished)

    def _note(self, decision: Decision, tap: Tap, complete: bool) -> str:
        """Of an answer that is not kept only the status is told, together with others a little later."""
        if len(self._noted) >= self._queue_limit * _NOTED_FOR_ONE:
            self._report("queue_full")
            return "queue_full"
        self._noted.append((decision, tap, complete))
        if self._noting is None:
            self._noting = asyncio.get_running_loop().call_later(_NOTE_SECONDS, self._tell)
        return "noted"

    def _tell(self) -> None:
        self._noting = None
        noted, self._noted = self._noted, []
        future = asyncio.get_running_loop().run_in_executor(self._worker, self._settle_all, noted)
        self._waiting.add(future)
        future.add_done_callback(self._told)

    def _told(self, results: asyncio.Future[str]) -> None:
        self._waiting.discard(results)
        if not results.cancelled():
            for result in results.result().split("\n"):
                self._report(result)

    def _settle_all(self, noted: list[tuple[Decision, Tap, bool]]) -> str:
        return "\n".join(self._settle(*one) for one in noted)

    def is_idle(self) -> bool:
        """Whether nothing waits."""
        return not self._waiting and not self._noted

    async def close(self, seconds: float) -> None:
        """Let what waits finish, within a limit, and end the worker."""
        if self._noting is not None:
            self._noting.cancel()
            self._tell()
        if self._waiting:
            await asyncio.wait(set(self._waiting), timeout=seconds)
        self._worker.shutdown(wait=False, cancel_futures=True)

    def _settle(self, decision: Decision, tap: Tap, complete: bool) -> str:
        graph = self._keeper.graph
        if graph is None:
            return "store_unavailable"
        body = b""
        reason = ""
        if is_read(decision):
            try:
                body = b"" if tap.overflowed else tap.decoded()
            except CodingError as error:
                reason = error.reason
            if tap.overflowed:
                reason = "too_large"
        try:
            # What cannot be read is still told: the status says whether the credential is good.
            result = graph.settle(
                decision, tap.status, tap.headers, body, complete and not reason, self._clock.wall_ms()
            )
        except Exception as error:  # noqa: BLE001 - a store that fails costs only the entry
            _LOG.warning("graph.settle failed", extra={"fields": {"error": type(error).__name__}})
            return "error"
        return reason or result
