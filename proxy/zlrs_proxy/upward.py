"""One request's way upstream: alone, as the leader of others who ask the same, or waiting behind one."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from zlrs.errors import CacheOnlyMissError
from zlrs_proxy.call import Call
from zlrs_proxy.flight import Flight, Flights, Outcome
from zlrs_proxy.forward import UpstreamError
from zlrs_proxy.health import Phase
from zlrs_proxy.metrics import status_class
from zlrs_proxy.ping import pinger_of
from zlrs_proxy.refuse import Refusal
from zlrs_proxy.relay import break_off, head, relay
from zlrs_proxy.route import Endpoint
from zlrs_proxy.settle import STORED, Settler, is_read
from zlrs_proxy.tap import Tap

if TYPE_CHECKING:
    from typing import Protocol

    from zlrs_proxy.accounts import Accounts
    from zlrs_proxy.attempts import Attempts
    from zlrs_proxy.background import Background
    from zlrs_proxy.body import Body
    from zlrs_proxy.exchange import Exchange
    from zlrs_proxy.health import Health
    from zlrs_proxy.metrics import Metrics
    from zlrs_proxy.respond import PlainResponse
    from zlrs_proxy.settings import Settings

    class Asker(Protocol):
        """Asks the graph again, after someone else's answer has been stored."""

        async def decide(self, exchange: Exchange, body: Body) -> None:
            """Leave a verdict in the exchange."""

        def answer_from_graph(self, exchange: Exchange, body: Body) -> PlainResponse | None:
            """The response to a hit."""


class Upward:
    """Forwards requests, taps the answers, and hands them to settle."""

    def __init__(
        self,
        settings: Settings,
        attempts: Attempts,
        settler: Settler | None,
        accounts: Accounts,
        flights: Flights,
        background: Background,
        health: Health,
        metrics: Metrics,
    ) -> None:
        self._settings = settings
        self._attempts = attempts
        self._accounts = accounts
        self._settler = settler
        self._background = background
        self._health = health
        self._metrics = metrics
        self._flights = flights
        self._fills = 0
        self._rechecks = 0
        self.open_calls = 0
        """Calls upstream that have not ended."""

    def count(self) -> int:
        """How many flights have landed; read before the graph is asked."""
        return self._flights.count

    async def answer(self, exchange: Exchange, body: Body, asker: Asker) -> PlainResponse:
        """The upstream's answer, or the graph's when the same ask was under way and has been stored.

        Raises:
            Refusal: No answer from upstream, or a cache-only miss.
        """
        key = _key(exchange, body)
        if exchange.controls.cache_only:
            raise self._cache_only(exchange, body, key)
        flight: Flight | None = None
        if key is not None:
            response = await self._follow(exchange, body, key, asker)
            if response is not None:
                return response
            if exchange.verdict.kind == "miss" and self._flights.join(key) is None:
                flight = self._flights.lead(key)
        return await self._forward(exchange, body, key, flight)

    async def _follow(self, exchange: Exchange, body: Body, key: str, asker: Asker) -> PlainResponse | None:
        """Wait behind the same ask; None when this one has to go upstream itself."""
        if self._flights.landed_since(key, exchange.flights_before):
            await asker.decide(exchange, body)
            return asker.answer_from_graph(exchange, body)
        deadline = exchange.elapsed() + self._settings.follower_seconds
        while (flight := self._flights.join(key)) is not None:
            exchange.waited = True
            outcome = await flight.wait(max(0.0, deadline - exchange.elapsed()))
            self._metrics.followers.add(outcome.value if outcome is not None else "timeout")
            if outcome is Outcome.STORED:
                await asker.decide(exchange, body)
                return asker.answer_from_graph(exchange, body)
            if outcome is not Outcome.LOST:
                return None
        return None

    async def _forward(
        self, exchange: Exchange, body: Body, key: str | None, flight: Flight | None
    ) -> PlainResponse:
        call = self._call(exchange, body, key, flight)
        response: PlainResponse | None = None
        try:
            response = await self._head(exchange, call)
            started = response
            await relay(
                exchange.request,
                response,
                call,
                self._settings.client_stall_seconds,
                exchange.first_byte,
                lambda: pinger_of(exchange.request, started, exchange.endpoint, self._settings.ping_seconds),
            )
        except UpstreamError as error:
            call.fail()
            if call.was_opened:
                self._metrics.upstream_errors.add(error.kind)
            if response is None or not response.prepared:
                raise error.refusal from error
            break_off(exchange.request)
        except Refusal:
            call.fail()
            raise
        except (asyncio.CancelledError, ConnectionError) as error:
            self._client_gone(call, flight)
            if isinstance(error, ConnectionError) and response is not None:
                return response
            raise
        except BaseException:
            call.fail()
            raise
        else:
            call.finish()
        return response

    async def _head(self, exchange: Exchange, call: Call) -> PlainResponse:
        """Wait for the head of the answer, and make ours of it."""
        answer = await call.opened()
        exchange.upstream_seconds = exchange.elapsed()
        await exchange.counted()
        member = exchange.answering()
        self._metrics.upstream.add(status_class(answer.status))
        receipts = exchange.receipts() if self._settings.receipts else []
        response = head(answer, receipts, keep_ours=member.is_zlrs, secret=member.key)
        if self._health.phase is Phase.DRAINING:
            response.force_close()
        return response

    def _client_gone(self, call: Call, flight: Flight | None) -> None:
        self._metrics.clients_gone.add()
        if flight is not None and flight.followers and not call.is_whole():
            flight.carrier = self._carry(call)
        else:
            call.leave()

    def _cache_only(self, exchange: Exchange, body: Body, key: str | None) -> Refusal:
        """The refusal of a cache-only miss; what may be stored is fetched on the side."""
        message = "The graph has no answer to this request"
        if key is not None:
            if self._flights.join(key) is None and self._fills < self._settings.fill_limit:
                self._fills += 1
                call = self._call(exchange, body, key, self._flights.lead(key))
                self._carry(call).add_done_callback(self._filled)
            if self._flights.join(key) is not None:
                exchange.verdict = exchange.verdict._replace(
                    kind="fill", header="fill" + exchange.verdict.header.removeprefix("miss")
                )
                message += "; it is being fetched"
        return Refusal(CacheOnlyMissError(f"{message}."), headers=(("x-should-retry", "false"),))

    def recheck(self, exchange: Exchange, body: Body) -> None:
        """Ask upstream again for what the graph has just answered: on the side, for the graph alone.

        The same request goes out once more, with the caller's own credentials. Past the limit it is left out;
        the graph then asks for it again at a later hit.
        """
        if self._rechecks >= self._settings.recheck_limit or self._health.phase is Phase.DRAINING:
            self._metrics.rechecks.add("left_out")
            return
        self._rechecks += 1
        self._metrics.rechecks.add("made")
        call = self._call(exchange, body, None, None)
        self._carry(call).add_done_callback(self._rechecked)

    def _carry(self, call: Call) -> asyncio.Task[None]:
        task = self._background.spawn(call.carry())
        task.add_done_callback(call.carried)
        return task

    def _rechecked(self, _task: asyncio.Task[None]) -> None:
        self._rechecks -= 1

    def _filled(self, _task: asyncio.Task[None]) -> None:
        self._fills -= 1

    def _call(self, exchange: Exchange, body: Body, key: str | None, flight: Flight | None) -> Call:
        decision = exchange.verdict.decision
        settler = self._settler
        accounts = self._accounts if self._accounts.is_on else None
        is_kept = (decision is not None and is_read(decision)) or (
            accounts is not None and exchange.endpoint is not Endpoint.OTHER
        )
        tap = Tap(self._settings.answer_limit_bytes if is_kept else 0, exchange.endpoint)
        self.open_calls += 1

        def land(outcome: Outcome) -> None:
            if key is not None and flight is not None:
                self._flights.end(key, flight, outcome)

        def ended(whole: bool) -> None:
            self.open_calls -= 1
            if not whole:
                land(Outcome.LOST)
            if tap.status and accounts is not None:
                accounts.answered(exchange, body.held if body.complete else b"", tap)
            # What another upstream has answered is not what the scope says.
            is_other = exchange.member is not exchange.order[0]
            if decision is None or settler is None or not tap.status or is_other:
                land(Outcome.NOT_STORED)
                return
            settler.submit(
                decision,
                tap,
                whole,
                lambda result: land(Outcome.STORED if result == STORED else Outcome.NOT_STORED),
            )

        opening = self._attempts.open(exchange, body)
        return Call(opening, body, tap, self._settings.idle_seconds, ended, may_outlive=flight is not None)


def _key(exchange: Exchange, body: Body) -> str | None:
    """What asks that wait for each other share: the node, which is scope and canonical form.

    It only decides who waits. Whether the stored answer is theirs too is the graph's second decision, so that
    an ask in other words, or as a stream instead of JSON, is never answered by the leader's bytes.
    """
    verdict = exchange.verdict
    if verdict.kind != "miss" or verdict.decision is None or not body.complete:
        return None
    return verdict.node or None
