"""The room where a request is changed, if its operator asked for that: hygiene, redaction, auto-temper."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from zlrs_proxy.coding import CodingError, decode
from zlrs_proxy.edits import Changed, Editor
from zlrs_proxy.names import value_of
from zlrs_proxy.refuse import invalid
from zlrs_proxy.route import Endpoint

if TYPE_CHECKING:
    from zlrs_proxy.body import Body
    from zlrs_proxy.exchange import Exchange
    from zlrs_proxy.settings import Settings

# What is not Messages or Chat and has texts all the same. Their `temperature` is left alone.
_MORE_PATHS = frozenset({"/v1/messages/count_tokens", "/v1/messages/batches", "/v1/responses"})
# Sums over the bytes that were sent; they would be wrong.
_SUMS = frozenset({b"content-encoding", b"content-md5", b"content-digest", b"digest"})
_IN_PLACE_BYTES = 64 * 1024


class Rewriter:
    """Holds and changes bodies.

    Raises:
        SettingsError: A pattern, a rule or a kind cannot be used.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._editor = Editor(settings.rewrite)
        self._redacts = bool(settings.rewrite.redact)

    async def at(self, exchange: Exchange, body: Body) -> None:
        """Change a request; what was changed is left in the exchange.

        Raises:
            Refusal: Redaction is on and the body cannot be read, or is too long to be held: what might be in
                it does not go on. Or it failed on the way.
        """
        is_understood = exchange.endpoint is not Endpoint.OTHER
        if not is_understood and not self._has_texts(exchange):
            return
        limit = self._settings.body_limit_bytes if self._redacts else self._settings.graph_body_limit_bytes
        changed = None
        if await body.hold(limit):
            changed = await self._changed(exchange, body.held, limit, may_temper=is_understood)
        if changed is None:
            if self._redacts and body.exists:
                raise invalid(
                    "Personal numbers are taken out of requests here, and this body cannot be read.",
                    suggestion=f"Send strict JSON of at most {limit} bytes, plain or in a known coding.",
                    close=not body.complete,
                )
            return
        if not changed.edits:
            return
        body.replace(changed.body)
        exchange.headers = tuple(pair for pair in exchange.headers if pair[0].lower() not in _SUMS)
        exchange.edits = changed.edits

    @staticmethod
    def _has_texts(exchange: Exchange) -> bool:
        return exchange.request.method == "POST" and exchange.accepted().path in _MORE_PATHS

    async def _changed(
        self, exchange: Exchange, body: bytes, limit: int, *, may_temper: bool
    ) -> Changed | None:
        coding = (value_of(exchange.headers, b"content-encoding") or b"").decode("latin-1")
        if not coding and len(body) <= _IN_PLACE_BYTES:
            return self._editor.edit(body, may_temper=may_temper)
        return await asyncio.to_thread(self._decoded, body, coding, limit, may_temper=may_temper)

    def _decoded(self, body: bytes, coding: str, limit: int, *, may_temper: bool) -> Changed | None:
        try:
            return self._editor.edit(decode(body, coding, limit), may_temper=may_temper)
        except CodingError:
            return None
