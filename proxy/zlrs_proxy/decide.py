"""The question to the graph: one call with the raw bytes. When it fails, upstream still answers."""

from __future__ import annotations

import asyncio
import logging
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from zlrs.graph import DecisionGraph
from zlrs_proxy.coding import CodingError, decode
from zlrs_proxy.names import RawHeaders, value_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from zlrs.graph import Decision, Graph
    from zlrs_proxy.clock import Clock
    from zlrs_proxy.keeper import Keeper

_LOG = logging.getLogger("zlrs_proxy")
_QUICK_BYTES = 64 * 1024
_NO_GRAPH = (b"x-zlrs-no-graph", b"true")


class Ask(NamedTuple):
    """A request as the graph is asked about it."""

    method: str
    path: str
    query: str
    """Without its question mark."""
    headers: RawHeaders
    body: bytes
    upstream: str
    """How the scope calls the upstream."""


class Verdict(NamedTuple):
    """A decision, or the reason why the graph was not asked."""

    kind: str
    header: str
    audit: str = ""
    node: str = ""
    decision: Decision | None = None


UNDECIDED = Verdict("", "")
"""The graph was asked for what it has in memory, and has to look further."""


@lru_cache(maxsize=64)
def skipped(reason: str) -> Verdict:
    """The graph was not asked."""
    return Verdict("skipped", f"skipped;reason={reason}")


class Decider:
    """Asks the graph: in threads of its own, so that a slow disk never holds up other requests.

    What the graph has in memory it says at once, where we are, which saves more time than the decision takes.
    For everything else, and for bodies that are long or compressed, a thread asks.

    Args:
        keeper: Has the graph, when there is one.
        clock: Wall time of the decision.
        decoded_limit: Longest body after its content coding is undone.
        seconds: How long to wait for the graph. Past it, and past `QUEUE_LIMIT`, upstream is asked.
    """

    QUEUE_LIMIT = 1024

    def __init__(self, keeper: Keeper, clock: Clock, decoded_limit: int, seconds: float) -> None:
        self._keeper = keeper
        self._clock = clock
        self._decoded_limit = decoded_limit
        self._seconds = seconds
        self._workers = ThreadPoolExecutor(max_workers=2, thread_name_prefix="zlrs-decide")
        self._waiting = 0

    def decide_now(self, ask: Ask, avoid: str = "") -> Verdict | None:
        """`decide` without a wait; None where a thread has to be asked."""
        graph = self._keeper.graph
        if graph is None:
            return skipped(avoid or self._keeper.reason)
        if self._waiting >= self.QUEUE_LIMIT:
            return skipped(avoid or "store_unavailable")
        if avoid:
            ask = ask._replace(headers=(*ask.headers, _NO_GRAPH), body=b"")
        is_coded = bool(ask.body) and value_of(ask.headers, b"content-encoding") is not None
        if len(ask.body) > _QUICK_BYTES or is_coded:
            return None
        verdict = self._ask(graph.decide_now, ask)
        return _avoided(verdict, avoid) if verdict is not None else None

    def plain(
        self, data: bytes, hosts: Sequence[bytes], upstream: str, now_ms: int, date: str, *, receipts: bool
    ) -> tuple[Verdict, bytes | None, bytes | None] | None:
        """A verdict on the bytes of one whole request, and the whole answer and its mark where it is a hit.

        `UNDECIDED` where a thread has to be asked, None where the bytes are no request of the plainest form.
        """
        graph = self._keeper.graph
        if not isinstance(graph, DecisionGraph) or self._waiting >= self.QUEUE_LIMIT:
            return None
        try:
            found = graph.answer_plain(data, hosts, upstream, now_ms, date, receipts=receipts)
        except Exception as error:  # noqa: BLE001 - a graph that fails must not stop the request
            _LOG.warning("graph.answer_plain failed", extra={"fields": {"error": type(error).__name__}})
            return None
        if found is None:
            return None
        decision, sent, mark = found
        if decision is None:
            return UNDECIDED, None, None
        if sent is not None:
            return Verdict("hit", "", "", "", decision), sent, mark
        return Verdict(decision.kind, decision.header, decision.audit, decision.node, decision), None, None

    async def decide(self, ask: Ask, avoid: str = "", *, was_tried: bool = False) -> Verdict:
        """What to do with a request; never raises.

        Args:
            ask: The request.
            avoid: Why the graph is not to answer. It is told of the request all the same: the answer's
                status says whether the credential is still good.
            was_tried: `decide_now` had no answer.
        """
        verdict = None if was_tried else self.decide_now(ask, avoid)
        graph = self._keeper.graph
        if verdict is not None or graph is None:
            return verdict or skipped(avoid or self._keeper.reason)
        if avoid:
            ask = ask._replace(headers=(*ask.headers, _NO_GRAPH), body=b"")
        return _avoided(await self._ask_aside(graph, ask), avoid)

    async def _ask_aside(self, graph: Graph, ask: Ask) -> Verdict:
        """In a thread, for as long as the caller may wait."""
        self._waiting += 1
        asking = asyncio.get_running_loop().run_in_executor(self._workers, self._ask, graph.decide, ask)
        asking.add_done_callback(self._answered)
        done, _ = await asyncio.wait({asking}, timeout=self._seconds)
        verdict = asking.result() if done else None
        return verdict if verdict is not None else skipped("store_unavailable")

    def note_changes(self, verdict: Verdict, changes: Sequence[object]) -> bool:
        """Add to the audit log what was changed in a verdict's request; False where there is no such log."""
        graph = self._keeper.graph
        if graph is None or verdict.decision is None or not verdict.audit:
            return False
        try:
            graph.note_changes(verdict.decision, changes)
        except Exception as error:  # noqa: BLE001 - the caller writes it down elsewhere
            _LOG.warning("graph.note_changes failed", extra={"fields": {"error": type(error).__name__}})
            return False
        return True

    def close(self) -> None:
        """End the threads."""
        self._workers.shutdown(wait=False, cancel_futures=True)

    def _answered(self, _asking: asyncio.Future[Verdict | None]) -> None:
        self._waiting -= 1

    def _ask(self, decide: Callable[..., Decision | None], ask: Ask) -> Verdict | None:
        headers, body = ask.headers, ask.body
        coding = (value_of(headers, b"content-encoding") or b"").decode("latin-1")
        if coding and body:
            try:
                body = decode(body, coding, self._decoded_limit)
            except CodingError as error:
                return skipped(error.reason)
            headers = tuple(pair for pair in headers if pair[0].lower() != b"content-encoding")
        try:
            decision = decide(
                ask.method, ask.path, ask.query, headers, body, ask.upstream, self._clock.wall_ms()
            )
            if decision is None:
                return None
            return Verdict(decision.kind, decision.header, decision.audit, decision.node, decision)
        except Exception as error:  # noqa: BLE001 - a graph that fails must not stop the request
            _LOG.warning("graph.decide failed", extra={"fields": {"error": type(error).__name__}})
            return skipped("store_unavailable")


def _avoided(verdict: Verdict, avoid: str) -> Verdict:
    if not avoid:
        return verdict
    return verdict._replace(kind="skipped", header=f"skipped;reason={avoid}", node="")
