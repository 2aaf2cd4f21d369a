"""The sidecar as a whole: its rooms put together, started, drained and stopped."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

import msgspec
from aiohttp import web

from zlrs_proxy.accept import is_loopback
from zlrs_proxy.access import read_token
from zlrs_proxy.accounts import Accounts
from zlrs_proxy.background import Background
from zlrs_proxy.capture import Capture
from zlrs_proxy.clock import Clock
from zlrs_proxy.connection import Connection, Server
from zlrs_proxy.decide import Decider
from zlrs_proxy.flight import Flights
from zlrs_proxy.health import Health, Phase
from zlrs_proxy.keeper import Keeper
from zlrs_proxy.ledger import Ledger
from zlrs_proxy.limits import Limits
from zlrs_proxy.metrics import Metrics
from zlrs_proxy.respond import whole_response
from zlrs_proxy.rooms import Plan, Rooms
from zlrs_proxy.settings import Settings, SettingsError
from zlrs_proxy.settle import Settler
from zlrs_proxy.state import open_secret

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable

    from zlrs.graph import Graph
    from zlrs_proxy.decide import Verdict
    from zlrs_proxy.exchange import Exchange
    from zlrs_proxy.worker import Worker

_LOG = logging.getLogger("zlrs_proxy")
_SETTLE_SECONDS = 5.0
_CUT_SECONDS = 1.0
_POLL_SECONDS = 0.02
_RETIRE_POLL_SECONDS = 0.5
# What a reload cannot change: it belongs to sockets, files and threads that are open.
_FIXED = (
    "host",
    "port",
    "workers",
    "admin_host",
    "admin_port",
    "admin_token_file",
    "state_folder",
    "usage_ledger",
    "capture",
    "graph_body_limit_bytes",
    "settle_queue_limit",
    "connection_limit",
    "header_seconds",
    "keepalive_seconds",
    "decide_seconds",
    "store_retry_seconds",
)


class Sidecar:
    """One process, one loop.

    Args:
        settings: Where and how.
        open_graph: Opens the decision graph; run in a thread. None: everything is relayed.
        clock: Real time unless a test says otherwise.
        worker: Its place among several, which has the sockets; None: it is alone.

    Raises:
        SettingsError: A setting cannot be used.
    """

    def __init__(
        self,
        settings: Settings,
        open_graph: Callable[[], Graph] | None = None,
        clock: Clock | None = None,
        worker: Worker | None = None,
    ) -> None:
        self.settings = settings
        self._worker = worker
        self.metrics = Metrics()
        self._clock = clock or Clock()
        self._secret = open_secret(settings.state_folder)
        self._plan = Plan(settings, self._clock, self._secret)
        token = read_token(settings.admin_token_file) if settings.admin_token_file is not None else None
        if settings.admin_port is not None and token is None and not is_loopback(settings.admin_host):
            raise SettingsError(
                f"refusing to serve metrics on {settings.admin_host} without a token. "
                "Give --admin-token-file FILE"
            )
        self._keeper = Keeper(self._following(open_graph), settings.store_retry_seconds)
        self._limits = Limits(self._clock)
        ledger = (
            Ledger(settings.state_folder, self._clock.wall_ms())
            if settings.state_folder is not None and settings.usage_ledger
            else None
        )
        capture = (
            Capture(settings.state_folder, settings.capture, self._clock)
            if settings.state_folder is not None and settings.capture.enabled
            else None
        )
        self._accounts = Accounts(self._clock, self.metrics, self._limits, ledger, capture)
        self._flights: Flights = Flights()
        self._decider: Decider | None = None
        self._settler: Settler | None = None
        self._rooms: Rooms | None = None
        self._retired: list[Rooms] = []
        self._background = Background()
        self.health = Health(self._metrics_text, token)
        self._runners: list[web.ServerRunner] = []
        self._server: Server | None = None
        self.address = ""
        """`http://host:port` once started."""
        self.admin_address: str | None = None

    def _following(self, open_graph: Callable[[], Graph] | None) -> Callable[[], Graph] | None:
        """As `open_graph`; the graph knows how busy we are."""
        if open_graph is None:
            return None

        def opened() -> Graph:
            from zlrs.graph import follow_load

            graph = open_graph()
            follow_load(graph, lambda: self.metrics.in_flight / self.settings.in_flight_limit)
            return graph

        return opened

    @property
    def upstream_name(self) -> str:
        """What stands behind, for people."""
        return ", ".join(member.upstream.name for member in self._plan.pool.members)

    async def start(self) -> None:
        """Open the graph and listen.

        Raises:
            OSError: The address cannot be taken.
            SettingsError: A file named in the settings cannot be used.
        """
        try:
            await self._keeper.start()
            if self._keeper.is_configured:
                limit = self.settings.graph_body_limit_bytes
                self._decider = Decider(self._keeper, self._clock, limit, self.settings.decide_seconds)
                self._settler = Settler(
                    self._keeper, self._clock, self.settings.settle_queue_limit, self.metrics.settle
                )
            self._furnish(self._plan)
            if self.settings.admin_port is not None:
                admin = Server(self._admin, self.settings, self._note_error)
                self.admin_address = await self._listen(
                    admin,
                    self.settings.admin_host,
                    self.settings.admin_port,
                    self._worker.admin if self._worker is not None else None,
                )
            self._server = Server(self._handle, self.settings, self._note_error, self._at_once, self._plain)
            self.address = await self._listen(
                self._server,
                self.settings.host,
                self.settings.port,
                self._worker.listening if self._worker is not None else None,
            )
        except BaseException:
            await self.stop(0)
            raise
        self.health.phase = Phase.READY
        _LOG.info("listening", extra={"fields": {"address": self.address, "upstream": self.upstream_name}})

    def reload(self, settings: Settings) -> list[str]:
        """Use other settings from the next request on; requests under way end with the old ones.

        Returns:
            The settings that differ and need a restart.

        Raises:
            SettingsError: They cannot be used; everything stays as it was.
        """
        kept = [name for name in _FIXED if getattr(settings, name) != getattr(self.settings, name)]
        fixed = {name: getattr(self.settings, name) for name in _FIXED}
        settings = msgspec.structs.replace(settings, **fixed)
        plan = Plan(settings, self._clock, self._secret)
        plan.pool.inherit(self._plan.pool)
        old = self._rooms
        self.settings, self._plan = settings, plan
        self._furnish(plan)
        if old is not None:
            self._retired.append(old)
            self._background.spawn(self._retire(old))
        return kept

    def _furnish(self, plan: Plan) -> None:
        self._rooms = Rooms(
            plan,
            self._decider,
            self._settler,
            self._accounts,
            self._limits,
            self._flights,
            self._background,
            self.health,
            self.metrics,
            self._clock,
        )
        self.metrics.breakers = lambda: {one.label: one.breaker.state for one in plan.pool.members}

    async def _retire(self, rooms: Rooms) -> None:
        while rooms.is_busy:  # noqa: ASYNC110 - rarely, and for a while; an event would cost every request
            await asyncio.sleep(_RETIRE_POLL_SECONDS)
        self._retired.remove(rooms)
        await rooms.close()

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        rooms = self._rooms
        if rooms is None:
            raise RuntimeError("the sidecar has not been started")
        rooms.in_flight += 1
        try:
            connection = request.protocol
            begun = connection.take_begun(request) if isinstance(connection, Connection) else None
            return await rooms.pipeline.handle(request, begun)
        finally:
            rooms.in_flight -= 1

    def _at_once(self, request: web.BaseRequest, verdict: Verdict | None) -> bytes | Exchange | None:
        return self._rooms.pipeline.at_once(request, verdict) if self._rooms is not None else None

    def _plain(self, data: bytes) -> bytes | Verdict | None:
        return self._rooms.pipeline.plain(data) if self._rooms is not None else None

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
        if self._decider is not None:
            self._decider.close()
        if self._settler is not None:
            await self._settler.close(_SETTLE_SECONDS)
        await self._accounts.close()
        for rooms in [*self._retired, *([self._rooms] if self._rooms is not None else [])]:
            await rooms.close()
        self._retired.clear()
        await self._keeper.close()
        _LOG.info("stopped")

    async def _listen(self, server: Server, host: str, port: int, given: socket.socket | None) -> str:
        runner = web.ServerRunner(server, shutdown_timeout=_CUT_SECONDS)
        await runner.setup()
        self._runners.append(runner)
        site = web.TCPSite(runner, host, port) if given is None else web.SockSite(runner, given)
        await site.start()
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

    def own_metrics(self) -> str:
        """The metrics of this process."""
        return self.metrics.text(self._keeper.stats())

    def _metrics_text(self) -> str:
        own = self.own_metrics()
        return own if self._worker is None else self._worker.tally.sums(own)

    def _note_error(self, status: int, error: BaseException | None) -> None:
        if status < 500:  # noqa: PLR2004 - a status is clearest by its number
            self.metrics.malformed.add()
        else:
            _LOG.error("fault in a handler", exc_info=error)
