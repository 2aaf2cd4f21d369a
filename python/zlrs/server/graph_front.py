"""The decision graph in front of the engine: decide before admission, replay a hit, settle after."""

from __future__ import annotations

import asyncio
import re
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from aiohttp import web

from zlrs.server.log import log

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from zlrs.graph import Decision, Graph

    Decide = Callable[
        [str, str, str, Sequence[tuple[bytes, bytes]], bytes, str, int],
        Decision | None,
    ]

SETTLE_QUEUE_LIMIT = 64
"""Answers waiting to be stored; past it an answer is not kept, and nobody waits for it."""

DECIDE_QUEUE_LIMIT = 1024
"""Requests waiting for the graph to look further than its memory; past it the engine is asked."""

DECIDE_SECONDS = 0.25
"""How long one of them waits."""

QUICK_BYTES = 64 * 1024
"""Longest body that is read on the loop."""

JSON_HEADERS = ((b"content-type", b"application/json"),)


class Verdict(NamedTuple):
    """What the graph said; without a decision when it failed, which is no error to the caller."""

    kind: str
    header: str
    audit: str
    decision: Decision | None


FAILED = Verdict("skipped", "skipped;reason=graph_error", "", None)
LATE = Verdict("skipped", "skipped;reason=store_unavailable", "", None)


class GraphFront:
    """Asks the graph, and stores in a thread of its own.

    What the graph has in memory it says on the loop, where nothing is read or waited for. Everything else, a
    disk or a remote store, and long bodies are the business of other threads.

    Args:
        graph: The decision graph.
        upstream: What answers behind it: the model's version, so that another file is another scope.
        wall: Clock, seconds since 1970.
        report: Told the result of every settled answer: `stored`, or why not.
        decide_seconds: How long a request waits for the graph; past it the engine is asked.
    """

    def __init__(
        self,
        graph: Graph,
        upstream: str,
        wall: Callable[[], float],
        report: Callable[[str], None],
        decide_seconds: float = DECIDE_SECONDS,
    ) -> None:
        self._graph = graph
        self._upstream = upstream
        self._wall = wall
        self._report = report
        self._decide_seconds = decide_seconds
        self._deciders = ThreadPoolExecutor(max_workers=2, thread_name_prefix="zlrs-decide")
        self._deciding = 0
        self._worker = ThreadPoolExecutor(max_workers=1, thread_name_prefix="zlrs-settle")
        self._waiting: set[asyncio.Future[str]] = set()

    async def decide(self, request: web.Request, body: bytes) -> Verdict:
        """What the graph says; a graph that fails is skipped, never an error to the caller."""
        path, _, query = request.raw_path.partition("?")
        ask = partial(
            _ask, request.method, path, query, request.raw_headers, body, self._upstream, self._wall_ms()
        )
        verdict = ask(self._graph.decide_now) if len(body) <= QUICK_BYTES else None
        return verdict or await self._decide_aside(ask)

    async def _decide_aside(self, ask: Callable[[Decide], Verdict | None]) -> Verdict:
        """In a thread, for as long as the caller may wait."""
        if self._deciding >= DECIDE_QUEUE_LIMIT:
            return LATE
        self._deciding += 1
        asking = asyncio.get_running_loop().run_in_executor(self._deciders, ask, self._graph.decide)
        asking.add_done_callback(self._decided)
        done, _ = await asyncio.wait({asking}, timeout=self._decide_seconds)
        return (asking.result() if done else None) or LATE

    def _decided(self, _asking: asyncio.Future[Verdict | None]) -> None:
        self._deciding -= 1

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
        self._deciders.shutdown(wait=False, cancel_futures=True)
        if self._waiting:
            await asyncio.wait(set(self._waiting))
        self._worker.shutdown(wait=True)
        await asyncio.to_thread(self._graph.close)


def _ask(
    method: str,
    path: str,
    query: str,
    headers: Sequence[tuple[bytes, bytes]],
    body: bytes,
    upstream: str,
    now_ms: int,
    decide: Decide,
) -> Verdict | None:
    """The verdict; None where `decide` has to look further."""
    try:
        decision = decide(method, path, query, headers, body, upstream, now_ms)
    except Exception as error:  # noqa: BLE001 - failing open: the engine can still answer
        log("graph_decide_failed", error=repr(error))
        return FAILED
    if decision is None:
        return None
    return Verdict(decision.kind, decision.header, decision.audit, decision)


class GraphRecorder:
    """Passes one answer on to the graph."""

    def __init__(self, front: GraphFront, decision: Decision) -> None:
        self._front = front
        self._decision = decision

    def settle(self, body: bytes) -> None:
        """Store the complete answer, off the caller's time."""
        self._front.settle(self._decision, body)
