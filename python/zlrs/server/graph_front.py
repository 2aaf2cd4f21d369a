"""The decision graph in front of the engine: decide before admission, replay a hit, settle after."""

from __future__ import annotations

import asyncio
import re
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, NamedTuple

from aiohttp import web

from zlrs.server.log import log

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from zlrs.graph import Decision, Graph

SETTLE_QUEUE_LIMIT = 64
"""Answers waiting to be stored; past it an answer is not kept, and nobody waits for it."""

JSON_HEADERS = ((b"content-type", b"application/json"),)


class Verdict(NamedTuple):
    """What the graph said; without a decision when it failed, which is no error to the caller."""

    kind: str
    header: str
    audit: str
    decision: Decision | None


FAILED = Verdict("skipped", "skipped;reason=graph_error", "", None)


class GraphFront:
    """Asks the graph on the loop (no input or output there) and stores in a thread of its own.

    Args:
        graph: The decision graph.
        upstream: What answers behind it: the model's version, so that another file is another scope.
        wall: Clock, seconds since 1970.
        report: Told the result of every settled answer: `stored`, or why not.
    """

    def __init__(
        self, graph: Graph, upstream: str, wall: Callable[[], float], report: Callable[[str], None]
    ) -> None:
        self._graph = graph
        self._upstream = upstream
        self._wall = wall
        self._report = report
        self._worker = ThreadPoolExecutor(max_workers=1, thread_name_prefix="zlrs-settle")
        self._waiting: set[asyncio.Future[str]] = set()

    async def decide(self, request: web.Request, body: bytes) -> Verdict:
        """What the graph says; a graph that fails is skipped, never an error to the caller."""
        path, _, query = request.raw_path.partition("?")
        try:
            decision = self._graph.decide(
                request.method, path, query, request.raw_headers, body, self._upstream, self._wall_ms()
            )
        except Exception as error:  # noqa: BLE001 - failing open: the engine can still answer
            log("graph_decide_failed", error=repr(error))
            return FAILED
        return Verdict(decision.kind, decision.header, decision.audit, decision)

    def replay(self, decision: Decision, receipts: Mapping[str, str]) -> web.Response | None:
        """The stored answer as the request asked for it; None when it cannot be made into one."""
        try:
            content = b"".join(decision.replay())
        except Exception as error:  # noqa: BLE001 - failing open: the engine can still answer
            log("graph_replay_failed", error=repr(error))
            return None
        headers = {**receipts, "content-type": decision.content_type}
        if decision.content_type.startswith("text/event-stream"):
            headers |= {"cache-control": "no-cache", "x-accel-buffering": "no"}
        return web.Response(body=content, headers=headers)

    def recorder(self, decision: Decision) -> GraphRecorder:
        """Takes the engine's answer to this decision."""
        return GraphRecorder(self, decision)

    def settle(self, decision: Decision, body: bytes) -> None:
        """Queue a complete answer for storing."""
        if len(self._waiting) >= SETTLE_QUEUE_LIMIT:
            self._report("queue_full")
            return
        future = asyncio.get_running_loop().run_in_executor(
            self._worker, self._graph.settle, decision, 200, JSON_HEADERS, body, True, self._wall_ms()
        )
        self._waiting.add(future)
        future.add_done_callback(self._settled)

    def _settled(self, future: asyncio.Future[str]) -> None:
        self._waiting.discard(future)
        if future.cancelled():
            return
        if (error := future.exception()) is not None:
            log("graph_settle_failed", error=repr(error))
            self._report("error")
        else:
            # A reason may go on with the place in the body, which is no label.
            self._report(re.split(r"[^a-z_]", future.result(), maxsplit=1)[0])
        for notice in self._graph.notices():
            log("graph_notice", text=notice)

    def _wall_ms(self) -> int:
        return int(self._wall() * 1000)

    async def close(self) -> None:
        """Store what waits, then close the graph."""
        if self._waiting:
            await asyncio.wait(set(self._waiting))
        self._worker.shutdown(wait=True)
        await asyncio.to_thread(self._graph.close)


class GraphRecorder:
    """Passes one answer on to the graph."""

    def __init__(self, front: GraphFront, decision: Decision) -> None:
        self._front = front
        self._decision = decision

    def settle(self, body: bytes) -> None:
        """Store the complete answer, off the caller's time."""
        self._front.settle(self._decision, body)
