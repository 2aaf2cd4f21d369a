"""The question to the graph: one call with the raw bytes. When it fails, upstream still answers."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, NamedTuple, Protocol

from zlrs_proxy.coding import CodingError, decode
from zlrs_proxy.names import RawHeaders, value_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zlrs_proxy.clock import Clock

_LOG = logging.getLogger("zlrs_proxy")

# A strict parse and a keyed hash of this much take well under a millisecond; more goes to a thread.
_ON_THE_LOOP_BYTES = 96 * 1024


class Decision(Protocol):
    """What the graph says about one request."""

    @property
    def kind(self) -> str:
        """`hit`, `miss` or `skipped`."""

    @property
    def node(self) -> str:
        """Name of the node, empty when there is none."""

    @property
    def header(self) -> str:
        """The value of `X-ZLRS-Decision`."""

    @property
    def audit(self) -> str:
        """Id of the audit record, empty when there is none."""

    @property
    def content_type(self) -> str:
        """Of the answer that `replay` makes."""

    def replay(self) -> list[bytes]:
        """The stored answer in the form the request asked for, with fresh ids."""


class Graph(Protocol):
    """The decision graph as the sidecar uses it; `zlrs.graph.DecisionGraph` is one."""

    def decide(
        self,
        method: str,
        path: str,
        query: str,
        headers: Sequence[tuple[bytes, bytes]],
        body: bytes,
        upstream: str,
        now_ms: int,
    ) -> Decision:
        """Look at a request."""

    def settle(
        self,
        decision: Decision,
        status: int,
        headers: Sequence[tuple[bytes, bytes]],
        body: bytes,
        complete: bool,
        now_ms: int,
    ) -> str:
        """Learn from the answer; `stored`, or why not."""

    def stats(self) -> dict[str, int]:
        """Numbers for metrics."""

    def flush(self) -> None:
        """Write what is queued."""

    def close(self) -> None:
        """Flush and close."""


class Verdict(NamedTuple):
    """A decision, or the reason why the graph was not asked."""

    kind: str
    header: str
    audit: str = ""
    node: str = ""
    decision: Decision | None = None


def skipped(reason: str) -> Verdict:
    """The graph was not asked."""
    return Verdict("skipped", f"skipped;reason={reason}")


class Decider:
    """Asks the graph, on the loop for short bodies and in a thread for long ones."""

    def __init__(self, graph: Graph, upstream: str, clock: Clock, decoded_limit: int) -> None:
        self._graph = graph
        self._upstream = upstream
        self._clock = clock
        self._decoded_limit = decoded_limit
        self.failures = 0

    async def decide(self, method: str, path: str, query: str, headers: RawHeaders, body: bytes) -> Verdict:
        """What to do with a request; never raises."""
        coding = (value_of(headers, b"content-encoding") or b"").decode("latin-1")
        arguments = (method, path, query.removeprefix("?"), headers, body, coding)
        if coding or len(body) > _ON_THE_LOOP_BYTES:
            return await asyncio.to_thread(self._ask, *arguments)
        return self._ask(*arguments)

    def _ask(
        self, method: str, path: str, query: str, headers: RawHeaders, body: bytes, coding: str
    ) -> Verdict:
        if coding:
            try:
                body = decode(body, coding, self._decoded_limit)
            except CodingError as error:
                return skipped(error.reason)
            headers = tuple(pair for pair in headers if pair[0].lower() != b"content-encoding")
        try:
            decision = self._graph.decide(
                method, path, query, headers, body, self._upstream, self._clock.wall_ms()
            )
            return Verdict(decision.kind, decision.header, decision.audit, decision.node, decision)
        except Exception as error:  # noqa: BLE001 - a graph that fails must not stop the request
            self.failures += 1
            _LOG.warning("graph.decide failed", extra={"fields": {"error": type(error).__name__}})
            return skipped("store_unavailable")
