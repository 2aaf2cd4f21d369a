"""Holds the decision graph that is in use, and opens it again while its store cannot be used."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from zlrs.graph import Graph

_LOG = logging.getLogger("zlrs_proxy")
_NOTICES_SECONDS = 5.0
_BYPASS = "bypass"


class Keeper:
    """The graph, or why there is none.

    Args:
        open_graph: Opens it; run in a thread. None: everything is relayed.
        retry_seconds: How often a graph that could not be opened, or is in bypass, is opened again.
    """

    def __init__(self, open_graph: Callable[[], Graph] | None, retry_seconds: float) -> None:
        self._open = open_graph
        self._retry_seconds = retry_seconds
        self._task: asyncio.Task[None] | None = None
        self._retired: list[Graph] = []
        self.graph: Graph | None = None
        self.reason = "graph_off" if open_graph is None else "store_unavailable"
        """Why there is no graph."""

    @property
    def is_configured(self) -> bool:
        """Whether there is or may be a graph."""
        return self._open is not None

    async def start(self) -> None:
        """Open the graph. A store that fails stops nothing."""
        if self._open is None:
            return
        self.graph = await self._opened()
        self._task = asyncio.ensure_future(self._watch())

    async def close(self) -> None:
        """Write what is queued and close."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})
        for graph in [*self._retired, self.graph]:
            if graph is not None:
                await asyncio.to_thread(_close, graph)
        self.graph = None
        self._retired.clear()

    def stats(self) -> dict[str, int]:
        """The graph's numbers for metrics."""
        if self.graph is None:
            return {}
        try:
            return self.graph.stats()
        except Exception as error:  # noqa: BLE001 - metrics without the graph's numbers are still metrics
            _LOG.warning("graph.stats failed", extra={"fields": {"error": type(error).__name__}})
            return {}

    async def _opened(self) -> Graph | None:
        assert self._open is not None  # noqa: S101 - only called where there is one
        try:
            return await asyncio.to_thread(self._open)
        except Exception as error:  # noqa: BLE001 - open on service
            _LOG.error(
                "the graph cannot be opened; everything is relayed",
                extra={"fields": {"error": type(error).__name__}},
            )
            return None

    async def _watch(self) -> None:
        pause = self._retry_seconds
        while True:
            await asyncio.sleep(min(pause, _NOTICES_SECONDS))
            if self.graph is not None:
                _notice(self.graph)
            if self.graph is None or await asyncio.to_thread(_is_bypassed, self.graph):
                await self._reopen()

    async def _reopen(self) -> None:
        opened = await self._opened()
        if opened is None:
            return
        if await asyncio.to_thread(_is_bypassed, opened):
            await asyncio.to_thread(_close, opened, quiet=True)
            return
        old, self.graph = self.graph, opened
        _LOG.info("the graph is in use")
        if old is not None:
            # Decisions of the old one may still be on their way; what it holds is small, and it ends with us.
            self._retired = [*self._retired[-1:], old]


def _is_bypassed(graph: Graph) -> bool:
    try:
        return graph.state().startswith(_BYPASS)
    except Exception:  # noqa: BLE001 - one that cannot even say is out of service
        return True


def _notice(graph: Graph) -> None:
    try:
        for line in graph.notices():
            _LOG.warning("graph: %s", line)
    except Exception as error:  # noqa: BLE001 - what cannot be said stops nothing
        _LOG.warning("graph.notices failed", extra={"fields": {"error": type(error).__name__}})


def _close(graph: Graph, *, quiet: bool = False) -> None:
    if not quiet:
        _notice(graph)
    try:
        graph.flush()
        graph.close()
    except Exception as error:  # noqa: BLE001 - the process is ending
        _LOG.warning("closing the graph failed", extra={"fields": {"error": type(error).__name__}})
