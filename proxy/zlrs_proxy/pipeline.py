"""The walk of a request through the rooms: accept, route, decide, then replay or the way upstream."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from zlrs.errors import CacheOnlyMissError, OverloadedError
from zlrs_proxy import accept
from zlrs_proxy.body import Body
from zlrs_proxy.connection import Connection
from zlrs_proxy.controls import controls_of
from zlrs_proxy.decide import Decider, Verdict, skipped
from zlrs_proxy.exchange import Exchange
from zlrs_proxy.health import PREFIX, Phase
from zlrs_proxy.metrics import status_class
from zlrs_proxy.names import RawHeaders, value_of
from zlrs_proxy.refuse import Refusal, invalid
from zlrs_proxy.replay import replay
from zlrs_proxy.respond import PlainResponse, refusal_response
from zlrs_proxy.route import Endpoint, endpoint_of, protocol_of

if TYPE_CHECKING:
    from aiohttp import web

    from zlrs_proxy.access import Access
    from zlrs_proxy.accounts import Accounts
    from zlrs_proxy.clock import Clock
    from zlrs_proxy.health import Health
    from zlrs_proxy.keys import Client
    from zlrs_proxy.limits import Limits
    from zlrs_proxy.look import Look
    from zlrs_proxy.metrics import Metrics
    from zlrs_proxy.pool import Pool
    from zlrs_proxy.settings import Settings
    from zlrs_proxy.upward import Upward

_LOG = logging.getLogger("zlrs_proxy")
_SHORT_BYTES = 64 * 1024


class Pipeline:
    """The handler of every request on the main address."""

    def __init__(
        self,
        settings: Settings,
        pool: Pool,
        access: Access,
        limits: Limits,
        look: Look,
        decider: Decider | None,
        upward: Upward,
        accounts: Accounts,
        health: Health,
        metrics: Metrics,
        clock: Clock,
    ) -> None:
        self._settings = settings
        self._pool = pool
        self._access = access
        self._limits = limits
        self._look = look
        self._decider = decider
        self._upward = upward
        self._accounts = accounts
        self._health = health
        self._metrics = metrics
        self._clock = clock
        self._hosts = accept.HostRule(settings)

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer a request."""
        connection = request.protocol
        if isinstance(connection, Connection):
            connection.head_complete()
        exchange = Exchange(request, self._clock)
        self._metrics.in_flight += 1
        try:
            response = await self._walk(exchange)
        except Refusal as refusal:
            receipts = exchange.receipts() if self._settings.receipts else []
            response = refusal_response(refusal, exchange.protocol, exchange.request_id, receipts)
            kind = exchange.verdict.kind if isinstance(refusal.error, CacheOnlyMissError) else "refused"
            self._count(exchange, response.status, kind)
        else:
            self._count(exchange, response.status, exchange.verdict.kind)
        finally:
            self._metrics.in_flight -= 1
            if isinstance(connection, Connection):
                connection.expect_head()
        if self._health.phase is Phase.DRAINING and not response.prepared:
            response.force_close()
        return response

    async def _walk(self, exchange: Exchange) -> PlainResponse:
        request, settings = exchange.request, self._settings
        target = exchange.target = accept.target_of(request)
        exchange.protocol = protocol_of(Endpoint.OTHER, target, exchange.headers)
        self._hosts.check(exchange.headers)
        if settings.admin_port is None and target.path.startswith(PREFIX + "/"):
            answer = self._health.answer(request.method, target.path.removeprefix(PREFIX), exchange.headers)
            if answer is not None:
                exchange.is_probe = True
                return answer
        accept.refuse_loops(exchange.headers)
        exchange.client = self._access.check(exchange.headers)
        if self._metrics.in_flight > settings.in_flight_limit:
            raise Refusal(
                OverloadedError(
                    f"This sidecar answers {settings.in_flight_limit} requests at once; all are taken."
                ),
                headers=(("Retry-After", "1"),),
                close=True,
            )
        if exchange.client is not None:
            self._admit(exchange.client)
        endpoint = exchange.endpoint = endpoint_of(request.method, target)
        exchange.protocol = protocol_of(endpoint, target, exchange.headers)
        if endpoint is not Endpoint.OTHER:
            require_json(exchange.headers)
        exchange.controls = controls_of(exchange.headers)
        exchange.order = self._pool.order(None, is_stuck=False)
        exchange.order[0].upstream.check(target)
        understood = endpoint is not Endpoint.OTHER
        limit = settings.body_limit_bytes if understood else settings.relay_body_limit_bytes
        length = accept.declared_length(request, limit)
        await accept.answer_expect(request, exchange.headers)
        body = Body(request, length, limit, settings.body_seconds)
        try:
            if body.is_here and length is not None and length <= _SHORT_BYTES:
                # It goes on in one write with the head, and can be sent again.
                await body.hold(_SHORT_BYTES)
            if understood:
                await self._look.at(exchange, body)
            await self.decide(exchange, body)
            response = self.answer_from_graph(exchange, body)
            if response is None:
                response = await self._upward.answer(exchange, body, self)
        finally:
            body.close()
        return response

    async def decide(self, exchange: Exchange, body: Body) -> None:
        """Ask the graph, where this request is one it understands; the verdict is left in the exchange."""
        if exchange.endpoint is Endpoint.OTHER:
            exchange.verdict = skipped("not_understood")
            return
        avoid = self._avoid(exchange)
        if not avoid and self._decider is not None and not await self._hold(body):
            avoid = "too_large"
        if self._decider is None:
            exchange.verdict = skipped(avoid or "graph_off")
            return
        target = exchange.accepted()
        exchange.flights_before = self._upward.count()
        began = exchange.elapsed()
        exchange.verdict = await self._decider.decide(
            exchange.request.method,
            target.path,
            target.query,
            exchange.headers,
            body.held,
            exchange.order[0].upstream.name,
            avoid,
        )
        exchange.decide_seconds = exchange.elapsed() - began
        self._metrics.decide_seconds.observe(exchange.decide_seconds)
        if exchange.counting is not None and exchange.verdict.kind == "hit":
            await exchange.counted()

    def answer_from_graph(self, exchange: Exchange, body: Body) -> PlainResponse | None:
        """The response to a hit; None for everything else."""
        verdict = exchange.verdict
        if verdict.kind != "hit" or verdict.decision is None:
            return None
        receipts = exchange.receipts() if self._settings.receipts else []
        response = replay(verdict.decision, exchange.endpoint, exchange.request_id, receipts)
        if response is None:
            exchange.verdict = Verdict("skipped", "skipped;reason=store_corrupt", verdict.audit)
        else:
            exchange.first_byte()
            if verdict.decision.recheck:
                self._upward.recheck(exchange, body)
            if self._accounts.is_on:
                self._accounts.replayed(exchange, body.held, response.whole or b"")
        return response

    async def _hold(self, body: Body) -> bool:
        return await body.hold(self._settings.graph_body_limit_bytes)

    @staticmethod
    def _avoid(exchange: Exchange) -> str:
        """Why the graph is not to answer; empty when it may."""
        if exchange.controls.no_graph:
            return "no_graph_header"
        if exchange.controls.multi_modal:
            return "multi_modal_header"
        return exchange.avoid

    def _admit(self, client: Client) -> None:
        try:
            self._limits.admit(client)
        except Refusal:
            self._metrics.limited.add()
            raise

    def _count(self, exchange: Exchange, status: int, kind: str) -> None:
        if exchange.is_probe:
            return
        self._metrics.requests.add(exchange.endpoint.value, kind, status_class(status))
        if exchange.first_byte_seconds is not None:
            self._metrics.first_byte_seconds.observe(exchange.first_byte_seconds)


def require_json(headers: RawHeaders) -> None:
    """Refuse what a web page can send here without asking: only JSON is a message.

    Raises:
        Refusal: 415.
    """
    kind = (value_of(headers, b"content-type") or b"").partition(b";")[0].strip().lower()
    if kind != b"application/json" and not (kind.startswith(b"application/") and kind.endswith(b"+json")):
        raise invalid(
            "The Content-Type must be application/json.",
            suggestion="Send the header content-type: application/json.",
            status=415,
        )
