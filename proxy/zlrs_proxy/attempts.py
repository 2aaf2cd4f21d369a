"""One answer from the upstreams: the first whose turn it is, then others or again, before the first byte."""

from __future__ import annotations

import asyncio
import random
from typing import TYPE_CHECKING

from zlrs_proxy.breaker import Health, health_of
from zlrs_proxy.forward import UpstreamError
from zlrs_proxy.retry import may_repeat_failure, may_repeat_status, wait_seconds

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zlrs_proxy.body import Body
    from zlrs_proxy.clock import Clock
    from zlrs_proxy.direct import Answer
    from zlrs_proxy.exchange import Exchange
    from zlrs_proxy.forward import Forwarder
    from zlrs_proxy.metrics import Metrics
    from zlrs_proxy.pool import Member, Pool
    from zlrs_proxy.settings import Settings

# Kinds of failure that say something about the upstream.
_UPSTREAM_FAULTS = frozenset({"unreachable", "connect_timeout", "tls", "closed", "first_byte", "malformed"})


class Attempts:
    """Asks upstreams until one has an answer to relay."""

    def __init__(
        self, settings: Settings, pool: Pool, forwarder: Forwarder, metrics: Metrics, clock: Clock
    ) -> None:
        self._settings = settings
        self._pool = pool
        self._forwarder = forwarder
        self._metrics = metrics
        self._clock = clock
        self._rng = random.Random()  # noqa: S311 - spreads waits, keeps no secret

    async def open(self, exchange: Exchange, body: Body) -> Answer:
        """The head of the answer; `exchange.member` says whose it is.

        Only a body that is here whole can be sent twice. An answer that would be tried again and cannot be is
        relayed as it is.

        Raises:
            UpstreamError: None of those asked gave an answer.
            Refusal: The client's own body failed on the way, or a header cannot be sent.
        """
        order = exchange.order
        # Read before the first try: a body that streams through is complete afterwards and gone.
        may_repeat = body.complete
        waiting = list(order)
        tries = 0
        held: Answer | None = None
        try:
            while True:
                member = _next(waiting)
                waiting.remove(member)
                tries += 1
                failure: UpstreamError | None = None
                answer: Answer | None = None
                try:
                    answer = await self._ask(exchange, body, member)
                except UpstreamError as error:
                    failure = error
                if answer is not None:
                    if held is not None:
                        held.close()
                    held, exchange.member = answer, member
                if not may_repeat or not _may_go_on(exchange, answer, failure):
                    break
                if not waiting:
                    pause = self._pause(answer, tries, len(order))
                    if pause is None:
                        break
                    await asyncio.sleep(pause)
                    waiting = list(order)
                self._metrics.retries.add("fallback" if len(waiting) < len(order) else "again")
            if held is None:
                assert failure is not None  # noqa: S101 - one of the two is always there
                raise failure
            result, held = held, None
            self._pool.answered(exchange.conversation, exchange.member or member, order[0])
            return result
        finally:
            if held is not None:
                held.close()

    async def _ask(self, exchange: Exchange, body: Body, member: Member) -> Answer:
        health = Health.NEUTRAL
        try:
            answer = await self._forwarder.open(exchange, body, member)
            health = health_of(answer.status)
        except UpstreamError as error:
            if error.kind in _UPSTREAM_FAULTS:
                health = Health.FAILED
            self._metrics.upstream_errors.add(error.kind)
            raise
        else:
            return answer
        finally:
            member.breaker.record(health)

    def _pause(self, answer: Answer | None, tries: int, upstreams: int) -> float | None:
        """How long to wait before all are asked again; None when they are not."""
        rounds = tries // upstreams
        if rounds > self._settings.retries:
            return None
        headers = answer.raw_headers if answer is not None else ()
        pause = wait_seconds(headers, rounds, self._clock.wall_ms(), self._rng)
        return pause if pause <= self._settings.retry_after_limit_seconds else None


def _next(waiting: Sequence[Member]) -> Member:
    """The first that its breaker lets through; the very first when none does."""
    return next((member for member in waiting if member.breaker.admits()), waiting[0])


def _may_go_on(exchange: Exchange, answer: Answer | None, failure: UpstreamError | None) -> bool:
    method = exchange.request.method
    if answer is not None:
        return may_repeat_status(method, answer.status, answer.raw_headers)
    return failure is not None and may_repeat_failure(method, failure.kind)
