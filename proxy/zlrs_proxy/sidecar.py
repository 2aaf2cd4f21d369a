"""The sidecar as a whole: its rooms put together, started, drained and stopped."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from aiohttp import web

from zlrs_proxy.accept import is_loopback
from zlrs_proxy.access import Access, read_keys
from zlrs_proxy.background import Background
from zlrs_proxy.clock import Clock
from zlrs_proxy.connection import Connection, Server
from zlrs_proxy.decide import Decider, Graph
from zlrs_proxy.forward import Forwarder
from zlrs_proxy.health import Health, Phase
from zlrs_proxy.metrics import Metrics
from zlrs_proxy.pipeline import Pipeline
from zlrs_proxy.respond import whole_response
from zlrs_proxy.route import Upstream
from zlrs_proxy.settings import Settings, SettingsError
from zlrs_proxy.settle import Settler
from zlrs_proxy.upward import Upward

if TYPE_CHECKING:
    from collections.abc import Callable

_LOG = logging.getLogger("zlrs_proxy")
_SETTLE_SECONDS = 5.0
_CUT_SECONDS = 1.0
_NOTICES_SECONDS = 5.0
_POLL_SECONDS = 0.02


class Sidecar:
    """One process, one loop, one upstream.

    Args:
        settings: Where and how.
        open_graph: Opens the decision graph; run in a thread. None: everything is relayed.
        clock: Real time unless a test says otherwise.

    Raises:
        SettingsError: A setting cannot be used.
    """

    def __init__(
        self, settings: Settings, open_graph: Callable[[], Graph] | None = None, clock: Clock | None = None
    ) -> None:
        self.settings = settings
        self.metrics = Metrics()
        self._clock = clock or Clock()
        self._upstream = Upstream(settings.upstream)
        self._access = Access(settings)
        token = read_keys(settings.admin_token_file)[0] if settings.admin_token_file is not None else None
        if settings.admin_port is not None and token is None and not is_loopback(settings.admin_host):
            raise SettingsError(
                f"refusing to serve metrics on {settings.admin_host} without a token. "
                "Give --admin-token-file FILE"
            )
        self._open_graph = open_graph
        self._graph: Graph | None = None
        self._decider: Decider | None = None
        self._settler: Settler | None = None
        self._notices: asyncio.Task[None] | None = None
        self._forwarder: Forwarder | None = None
        self._background = Background()
        self.health = Health(self._metrics_text, token)
        self._runners: list[web.ServerRunner] = []
        self._server: Server | None = None
        self.address = ""
        """`http://host:port` once started."""
        self.admin_address: str | None = None

    async def start(self) -> None:
        """Open the graph and listen.

        Raises:
            OSError: The address cannot be taken.
            SettingsError: A file named in the settings cannot be used.
        """
        try:
            pipeline = await self._build()
            if self.settings.admin_port is not None:
                admin = Server(self._admin, self.settings, self._note_error)
                self.admin_address = await self._listen(
                    admin, self.settings.admin_host, self.settings.admin_port
                )
            self._server = Server(pipeline.handle, self.settings, self._note_error)
            self.address = await self._listen(self._server, self.settings.host, self.settings.port)
        except BaseException:
            await self.stop(0)
            raise
        self.health.phase = Phase.READY
        _LOG.info("listening", extra={"fields": {"address": self.address, "upstream": self._upstream.name}})

    async def _build(self) -> Pipeline:
        """The rooms, each with what it needs of the others."""
        reason = await self._start_graph()
        self._forwarder = Forwarder(self.settings, self._access, self._upstream.name)
        if self._graph is not None:
            self._decider = Decider(
                self._graph,
                self._upstream.name,
                self._clock,
                self.settings.graph_body_limit_bytes,
                self.settings.decide_seconds,
            )
            self._notices = asyncio.ensure_future(self._log_notices(self._graph))
            self._settler = Settler(
                self._graph, self._clock, self.settings.settle_queue_limit, self.metrics.settle
            )
        upward = Upward(
            self.settings,
            self._access,
            self._forwarder,
            self._settler,
            self._background,
            self.health,
            self.metrics,
        )
        return Pipeline(
            self.settings,
            self._upstream,
            self._access,
            self._decider,
            upward,
            self.health,
            self.metrics,
            self._clock,
            reason,
        )

    async def stop(self, drain_seconds: float | None = None) -> None:
        """Accept no more, let answers finish within the limit, cut the rest, write what is queued."""
        limit = self.settings.drain_seconds if drain_seconds is None else drain_seconds
        self.health.phase = Phase.DRAINING
        # The main address was begun last; the admin address goes on answering probes while it drains.
        for runner in reversed(self._runners):
            for site in list(runner.sites):
                await site.stop()
            if runner.server is self._server and self._server is not None:
                await self._drain(self._server, limit)
            await runner.cleanup()
        self._runners.clear()
        await self._background.close(min(_CUT_SECONDS, limit))
        if self._notices is not None:
            self._notices.cancel()
        if self._decider is not None:
            self._decider.close()
        if self._settler is not None:
            await self._settler.close(_SETTLE_SECONDS)
        if self._forwarder is not None:
            await self._forwarder.close()
        if self._graph is not None:
            graph, self._graph = self._graph, None
            await asyncio.to_thread(_close_graph, graph)
        _LOG.info("stopped")

    async def _start_graph(self) -> str:
        """Open the graph where there is one; returns why there is none. A store that fails stops nothing."""
        if self._open_graph is None:
            return "graph_off"
        try:
            self._graph = await asyncio.to_thread(self._open_graph)
        except Exception as error:  # noqa: BLE001 - open on service
            _LOG.error(
                "the graph cannot be opened; everything is relayed",
                extra={"fields": {"error": type(error).__name__}},
            )
            return "store_unavailable"
        return ""

    async def _log_notices(self, graph: Graph) -> None:
        while True:
            await asyncio.sleep(_NOTICES_SECONDS)
            _notice(graph)

    async def _listen(self, server: Server, host: str, port: int) -> str:
        runner = web.ServerRunner(server, shutdown_timeout=_CUT_SECONDS)
        await runner.setup()
        self._runners.append(runner)
        await web.TCPSite(runner, host, port).start()
        bound = runner.addresses[0]
        shown = f"[{bound[0]}]" if ":" in bound[0] else bound[0]
        return f"http://{shown}:{bound[1]}"

    async def _drain(self, server: Server, seconds: float) -> None:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + seconds
        await asyncio.sleep(0)
        while True:
            for connection in server.connections:
                if isinstance(connection, Connection) and connection.is_idle():
                    connection.force_close()
            if not self.metrics.in_flight or loop.time() >= deadline:
                return
            await asyncio.sleep(_POLL_SECONDS)

    async def _admin(self, request: web.BaseRequest) -> web.StreamResponse:
        connection = request.protocol
        if isinstance(connection, Connection):
            connection.head_complete()
            connection.expect_head()
        answer = self.health.answer(request.method, request.raw_path.partition("?")[0], request.raw_headers)
        return answer or whole_response(404, b"/livez /readyz /startupz /metrics\n", "text/plain", [])

    def _metrics_text(self) -> str:
        numbers: dict[str, int] = {}
        if self._graph is not None:
            try:
                numbers = self._graph.stats()
            except Exception as error:  # noqa: BLE001 - metrics without the graph's numbers are still metrics
                _LOG.warning("graph.stats failed", extra={"fields": {"error": type(error).__name__}})
        return self.metrics.text(numbers)

    def _note_error(self, status: int, error: BaseException | None) -> None:
        if status < 500:  # noqa: PLR2004
            self.metrics.malformed.add()
        else:
            _LOG.error("fault in a handler", exc_info=error)


def _notice(graph: Graph) -> None:
    try:
        for line in graph.notices():
            _LOG.warning("graph: %s", line)
    except Exception as error:  # noqa: BLE001 - what cannot be said stops nothing
        _LOG.warning("graph.notices failed", extra={"fields": {"error": type(error).__name__}})


def _close_graph(graph: Graph) -> None:
    _notice(graph)
    try:
        graph.flush()
        graph.close()
    except Exception as error:  # noqa: BLE001 - the process is ending
        _LOG.warning("closing the graph failed", extra={"fields": {"error": type(error).__name__}})
