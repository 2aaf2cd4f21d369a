"""What the configuration says about a request by its body; nothing is read when it says nothing."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from zlrs_proxy.coding import CodingError, decode
from zlrs_proxy.memory import Memory
from zlrs_proxy.names import value_of
from zlrs_proxy.traps import check_window, cut
from zlrs_proxy.view import View, view_of

if TYPE_CHECKING:
    from zlrs_proxy.body import Body
    from zlrs_proxy.clock import Clock
    from zlrs_proxy.exchange import Exchange
    from zlrs_proxy.metrics import Metrics
    from zlrs_proxy.names import RawHeaders
    from zlrs_proxy.pool import Pool
    from zlrs_proxy.recount import Recounter
    from zlrs_proxy.rules import Rules
    from zlrs_proxy.settings import Settings

_IN_PLACE_BYTES = 256 * 1024


class Look:
    """Chooses upstreams, applies rules and the limits of `max_tokens`, and begins the recount."""

    def __init__(
        self,
        settings: Settings,
        pool: Pool,
        rules: Rules,
        recounter: Recounter | None,
        metrics: Metrics,
        clock: Clock,
    ) -> None:
        self._settings = settings
        self._pool = pool
        self._rules = rules
        self._recounter = recounter
        self._metrics = metrics
        self._memory = Memory(clock)
        self._worker = (
            ThreadPoolExecutor(1, thread_name_prefix="zlrs-recount") if recounter is not None else None
        )
        self._checks_length = settings.window_tokens is not None or settings.cut_max_tokens is not None
        chooses = not pool.is_single()
        repeats = settings.retries > 0
        self.is_needed = bool(rules or recounter is not None or self._checks_length or chooses or repeats)
        """Whether there is anything to look for."""

    async def at(self, exchange: Exchange, body: Body) -> None:
        """Look at a request that is understood.

        Raises:
            Refusal: Its `max_tokens` is over what the window allows, or its body failed on the way.
        """
        if not self.is_needed:
            return
        view: View | None = None
        if await body.hold(self._settings.graph_body_limit_bytes):
            view = await self._view(exchange.headers, body.held)
        if not self._pool.is_single():
            self._choose(exchange, view)
        if view is None:
            return
        if self._checks_length:
            await self._length(exchange, body, view)
        if self._rules:
            exchange.avoid, rule = self._rules.reason(view, exchange.controls.cohort)
            if exchange.avoid:
                self._metrics.rules.add(rule or exchange.avoid)
        if self._recounter is not None:
            exchange.counting = asyncio.get_running_loop().run_in_executor(
                self._worker, self._recounter.count, view
            )

    def close(self) -> None:
        """End the thread."""
        if self._worker is not None:
            self._worker.shutdown(wait=False, cancel_futures=True)

    async def _view(self, headers: RawHeaders, body: bytes) -> View | None:
        coding = (value_of(headers, b"content-encoding") or b"").decode("latin-1")
        if coding or len(body) > _IN_PLACE_BYTES:
            return await asyncio.to_thread(self._decoded_view, body, coding)
        return view_of(body)

    def _decoded_view(self, body: bytes, coding: str) -> View | None:
        try:
            return view_of(decode(body, coding, self._settings.graph_body_limit_bytes))
        except CodingError:
            return None

    def _choose(self, exchange: Exchange, view: View | None) -> None:
        parts = [
            value for name, value in exchange.headers if name.lower() in {b"x-api-key", b"authorization"}
        ]
        if view is not None:
            parts += [view.model.encode("utf-8", "surrogatepass"), view.first]
        exchange.conversation = b"".join(len(part).to_bytes(8, "big") + part for part in parts)
        is_stuck = view is not None and view.has_thoughts
        exchange.order = self._pool.order(exchange.conversation, is_stuck=is_stuck)

    async def _length(self, exchange: Exchange, body: Body, view: View) -> None:
        limit = self._settings.cut_max_tokens
        asked = view.max_tokens
        if limit is not None and asked is not None and asked > limit:
            # A compressed body is not written anew, and its length is then checked as it is.
            is_plain = value_of(exchange.headers, b"content-encoding") is None
            changed = (
                await asyncio.to_thread(cut, body.held, view.max_tokens_name, limit) if is_plain else None
            )
            if changed is not None:
                body.replace(changed)
                exchange.truncated = limit
                view = view._replace(max_tokens=limit)
        refusal = check_window(self._settings, self._memory, view)
        if refusal is not None:
            raise refusal
