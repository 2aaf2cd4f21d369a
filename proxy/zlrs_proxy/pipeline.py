"""The walk of a request through the rooms: accept, route, decide, then replay or the way upstream."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from zlrs.errors import CacheOnlyMissError, OverloadedError
from zlrs_proxy import accept
from zlrs_proxy.body import Body
from zlrs_proxy.connection import Connection
from zlrs_proxy.controls import controls_of
from zlrs_proxy.decide import UNDECIDED, Ask, Decider, Verdict, skipped
from zlrs_proxy.exchange import Exchange
from zlrs_proxy.health import PREFIX, Phase
from zlrs_proxy.metrics import status_class
from zlrs_proxy.names import RawHeaders, value_of
from zlrs_proxy.plain import LIMIT_BYTES as PLAIN_BYTES
from zlrs_proxy.plain import PlainWay
from zlrs_proxy.refuse import Refusal, invalid
from zlrs_proxy.replay import replay
from zlrs_proxy.respond import PlainResponse, refusal_response
from zlrs_proxy.route import Endpoint, endpoint_of, protocol_of, refuse_unknown

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
    from zlrs_proxy.rewrite import Rewriter
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
        rewriter: Rewriter | None,
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
        self._rewriter = rewriter
        self._look = look
        self._decider = decider
        self._upward = upward
        self._accounts = accounts
        self._health = health
        self._metrics = metrics
        self._clock = clock
        self._hosts = accept.HostRule(settings)
        self._plain: PlainWay | None = None
        is_direct = rewriter is None and not look.is_needed and access.is_open
        limit = min(settings.body_limit_bytes, settings.graph_body_limit_bytes)
        if decider is not None and is_direct and limit >= PLAIN_BYTES:
            self._plain = PlainWay(
                decider, accounts, self._hosts, pool.first, metrics, clock, receipts=settings.receipts
            )

    def plain(self, data: bytes) -> bytes | Verdict | None:
        """Answer the bytes of one whole request.

        Returns:
            What to send, or what was decided, for `at_once`; None where that needs a parsed request.
        """
        is_free = self._metrics.in_flight < self._settings.in_flight_limit
        if self._plain is None or not is_free or self._health.phase is not Phase.READY:
            return None
        return self._plain.answer(data)

    def at_once(self, request: web.BaseRequest, verdict: Verdict | None = None) -> bytes | Exchange | None:
        """Answer a request that is here whole, where that needs no wait.

        Args:
            request: The request.
            verdict: What `plain` has decided about it.

        Returns:
            What to send, or what is known of the request so far, for `handle`; None where nothing is.
        """
        needs_more = self._look.is_needed or self._rewriter is not None
        if self._decider is None or needs_more or self._health.phase is not Phase.READY:
            return None
        exchange = Exchange(request, self._clock)
        metrics = self._metrics
        metrics.in_flight += 1
        try:
            if verdict is None or verdict is UNDECIDED:
                response = self._accept(exchange) or self._hit_at_once(exchange, None)
            else:
                self._accept_plain(exchange)
                response = self._hit_at_once(exchange, verdict)
            if response is None or response.whole is None or not response.can_be_sent_at_once(request):
                return exchange
            sent = response.to_bytes(response.whole, keep_alive=True)
            self._count(exchange, response.status, exchange.verdict.kind)
        except Refusal as refusal:
            exchange.refusal = refusal
            return exchange
        finally:
            metrics.in_flight -= 1
        return sent

    def _hit_at_once(self, exchange: Exchange, verdict: Verdict | None) -> PlainResponse | None:
        """The response to a hit, where neither body nor decision have to be waited for."""
        body = exchange.body
        if body is None or value_of(exchange.headers, b"expect") is not None:
            return None
        limit = min(_SHORT_BYTES, self._settings.graph_body_limit_bytes)
        if not body.hold_now(limit) or not self._decide_now(exchange, body, verdict):
            return None
        return self.answer_from_graph(exchange, body)

    async def handle(self, request: web.BaseRequest, begun: Exchange | None = None) -> web.StreamResponse:
        """Answer a request; `begun` is what `at_once` made of it."""
        connection = request.protocol
        if isinstance(connection, Connection):
            connection.head_complete()
        exchange = begun or Exchange(request, self._clock)
        exchange.request = request
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
        request = exchange.request
        if exchange.refusal is not None:
            raise exchange.refusal
        if exchange.body is None:
            probe = self._accept(exchange)
            if probe is not None:
                return probe
        body = exchange.body
        if body is None:
            raise RuntimeError("a request that is accepted has a body, be it empty")
        try:
            if not exchange.was_decided:
                await accept.answer_expect(request, exchange.headers)
                if body.is_here and body.length is not None and body.length <= _SHORT_BYTES:
                    # It goes on in one write with the head, and can be sent again.
                    await body.hold(_SHORT_BYTES)
                await self._prepare(exchange, body)
                await self.decide(exchange, body)
                if exchange.edits:
                    self._note_edits(exchange)
            response = self.answer_from_graph(exchange, body)
            if response is None:
                response = await self._upward.answer(exchange, body, self)
        finally:
            body.close()
        return response

    def _accept(self, exchange: Exchange) -> PlainResponse | None:
        """Check everything that can be checked before the body is read, which is then in the exchange.

        Returns:
            The answer to a probe; None for everything else.

        Raises:
            Refusal: It is no request for us, or too much of one.
        """
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
        understood = endpoint is not Endpoint.OTHER
        if understood:
            require_json(exchange.headers)
        exchange.controls = controls_of(exchange.headers)
        exchange.order = self._pool.order(None, is_stuck=False)
        exchange.order[0].upstream.check(target)
        if settings.unknown_paths == "refuse":
            refuse_unknown(target)
        limit = settings.body_limit_bytes if understood else settings.relay_body_limit_bytes
        length = accept.declared_length(request, limit)
        exchange.body = Body(request, length, limit, settings.body_seconds)
        return None

    def _accept_plain(self, exchange: Exchange) -> None:
        """`_accept` for a request that `plain` has read: what was checked there is not checked again."""
        request, settings = exchange.request, self._settings
        path, mark, query = request.raw_path.partition("?")
        target = exchange.target = accept.Target(path, mark + query)
        endpoint = exchange.endpoint = endpoint_of(request.method, target)
        exchange.protocol = protocol_of(endpoint, target, exchange.headers)
        exchange.order = self._pool.order(None, is_stuck=False)
        length = request.content_length
        exchange.body = Body(request, length, settings.body_limit_bytes, settings.body_seconds)

    async def _prepare(self, exchange: Exchange, body: Body) -> None:
        """Change the request where that was asked for, then look at what will be sent."""
        if self._rewriter is not None:
            await self._rewriter.at(exchange, body)
        if exchange.endpoint is not Endpoint.OTHER:
            await self._look.at(exchange, body)

    async def decide(self, exchange: Exchange, body: Body) -> None:
        """Ask the graph, where this request is one it understands; the verdict is left in the exchange."""
        exchange.was_decided = True
        avoid = self._avoid(exchange)
        is_asked = exchange.endpoint is not Endpoint.OTHER and self._decider is not None
        if is_asked and not avoid and not await self._hold(body):
            avoid = "too_large"
        if self._decider is None or not is_asked:
            exchange.verdict = self._not_asked(exchange, avoid)
            return
        exchange.flights_before = self._upward.count()
        began = exchange.elapsed()
        exchange.verdict = await self._decider.decide(
            _ask(exchange, body), avoid, was_tried=exchange.was_tried
        )
        exchange.was_tried = False
        self._decided(exchange, began)
        if exchange.counting is not None and exchange.verdict.kind == "hit":
            await exchange.counted()

    def _decide_now(self, exchange: Exchange, body: Body, verdict: Verdict | None) -> bool:
        """`decide` for a body that is held, where that needs no wait; whether it was done.

        Where there is a verdict already, only what goes with it is done.
        """
        avoid = self._avoid(exchange)
        if exchange.endpoint is Endpoint.OTHER or self._decider is None:
            exchange.verdict = self._not_asked(exchange, avoid)
        elif verdict is not None:
            exchange.flights_before = self._upward.count()
            exchange.verdict = verdict
        else:
            exchange.flights_before = self._upward.count()
            began = exchange.elapsed()
            verdict = self._decider.decide_now(_ask(exchange, body), avoid)
            if verdict is None:
                exchange.was_tried = True
                return False
            exchange.verdict = verdict
            self._decided(exchange, began)
        exchange.was_decided = True
        return True

    @staticmethod
    def _not_asked(exchange: Exchange, avoid: str) -> Verdict:
        if exchange.endpoint is Endpoint.OTHER:
            return skipped("not_understood")
        return skipped(avoid or "graph_off")

    def _decided(self, exchange: Exchange, began: float) -> None:
        exchange.decide_seconds = exchange.elapsed() - began
        self._metrics.decide_seconds.observe(exchange.decide_seconds)

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
        limit = self._settings.graph_body_limit_bytes
        return await body.hold(limit) and len(body.held) <= limit

    def _note_edits(self, exchange: Exchange) -> None:
        """List what was changed: in the audit log, or in ours where the graph keeps none."""
        listed = [edit.listed() for edit in exchange.edits]
        if self._decider is None or not self._decider.note_changes(exchange.verdict, listed):
            fields = {"request_id": exchange.request_id, "changes": listed}
            _LOG.info("request changed", extra={"fields": fields})

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


def _ask(exchange: Exchange, body: Body) -> Ask:
    target = exchange.accepted()
    return Ask(
        exchange.request.method,
        target.path,
        target.query.removeprefix("?"),
        exchange.headers,
        body.held,
        exchange.order[0].upstream.name,
    )


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
