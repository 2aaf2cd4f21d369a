"""What is known about one request while it walks through the rooms, and the receipts made of it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from zlrs.wire import REWRITTEN, TOKENS, TRUNCATED
from zlrs_proxy.controls import Controls
from zlrs_proxy.decide import Verdict, skipped
from zlrs_proxy.edits import summary
from zlrs_proxy.ids import request_id
from zlrs_proxy.route import Endpoint

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aiohttp import web

    from zlrs.wire import Protocol
    from zlrs_proxy.accept import Target
    from zlrs_proxy.body import Body
    from zlrs_proxy.clock import Clock
    from zlrs_proxy.edits import Edit
    from zlrs_proxy.keys import Client
    from zlrs_proxy.names import RawHeaders
    from zlrs_proxy.pool import Member
    from zlrs_proxy.recount import Count
    from zlrs_proxy.refuse import Refusal

_COUNT_SECONDS = 0.05
_NO_CONTROLS = Controls()
_NOT_ASKED = skipped("not_asked")


class Exchange:
    """One request and what became of it. Times are seconds since it was accepted."""

    def __init__(self, request: web.BaseRequest, clock: Clock) -> None:
        self._clock = clock
        self._started = clock.monotonic()
        self.request = request
        self.request_id = request_id()
        self.headers: RawHeaders = request.raw_headers
        self.refusal: Refusal | None = None
        """What it was refused with, before anything had to be waited for."""
        self.body: Body | None = None
        """Its body, once it has been accepted."""
        self.was_tried = False
        """Whether the graph was asked for an answer from memory, and had none."""
        self.was_decided = False
        """Whether the graph was asked, or need not be."""
        self.target: Target | None = None
        self.endpoint = Endpoint.OTHER
        self.protocol: Protocol = "messages"
        self.controls = _NO_CONTROLS
        self.verdict: Verdict = _NOT_ASKED
        self.is_probe = False
        self.client: Client | None = None
        """Whose key was presented, where keys are needed."""
        self.order: Sequence[Member] = ()
        """The upstreams to ask, the first one first: its name is in the scope."""
        self.member: Member | None = None
        """Whose answer this is."""
        self.conversation: bytes | None = None
        self.avoid = ""
        """Why the configuration keeps this ask from the graph."""
        self.waited = False
        """Whether it waited behind the same ask."""
        self.edits: tuple[Edit, ...] = ()
        """What the configuration had changed in it."""
        self.truncated: int | None = None
        """What `max_tokens` was lowered to."""
        self.count: Count | None = None
        """Tokens of the prompt, counted here."""
        self.counting: asyncio.Future[Count] | None = None
        self.flights_before = 0
        """How many flights had landed when the graph was asked."""
        self.decide_seconds: float | None = None
        self.upstream_seconds: float | None = None
        self.first_byte_seconds: float | None = None

    def elapsed(self) -> float:
        """Seconds since the request was accepted."""
        return self._clock.monotonic() - self._started

    async def counted(self) -> None:
        """Wait a moment for the count of tokens; a receipt without it is better than a late answer."""
        if self.counting is None:
            return
        done, _ = await asyncio.wait({self.counting}, timeout=_COUNT_SECONDS)
        if done and self.counting.exception() is None:
            self.count = self.counting.result()
        self.counting = None

    def answering(self) -> Member:
        """Whose answer this is, once there is one."""
        return self.member if self.member is not None else self.order[0]

    def accepted(self) -> Target:
        """The target of a request that has been accepted."""
        if self.target is None:
            raise RuntimeError("the request has no target yet")
        return self.target

    def line(self, status: int) -> dict[str, object]:
        """What the access log says of it; no text, no query, no key."""
        return {
            "request_id": self.request_id,
            "endpoint": self.endpoint.value,
            "status": status,
            "decision": self.verdict.kind,
            "upstream": self.member.label if self.member is not None else None,
            "client": self.client.name if self.client is not None else None,
            "milliseconds": round(self.elapsed() * 1000, 2),
        }

    def first_byte(self) -> None:
        """The first byte of the answer has been written."""
        if self.first_byte_seconds is None:
            self.first_byte_seconds = self.elapsed()

    def receipts(self) -> list[tuple[str, str]]:
        """Headers that say what was done."""
        found = [("X-ZLRS-Request-Id", self.request_id), ("X-ZLRS-Decision", _safe(self.verdict.header))]
        if self.verdict.audit:
            found.append(("X-ZLRS-Audit", _safe(self.verdict.audit)))
        if self.edits:
            found.append((REWRITTEN, summary(self.edits)))
        if self.truncated is not None:
            found.append((TRUNCATED, f"max_tokens={self.truncated}"))
        if self.count is not None:
            found.append((TOKENS, self.count.header))
        if self.controls.diagnostic:
            parts = {
                "decide": self.decide_seconds,
                "upstream": self.upstream_seconds,
                "first_byte": self.elapsed(),
            }
            text = ",".join(f"{name}={s * 1000:.2f}ms" for name, s in parts.items() if s is not None)
            found.append(("X-ZLRS-Latency", text))
        return found


def _safe(value: str) -> str:
    """A header value: printable ASCII, whatever a field's name in a reason may hold."""
    if value.isascii() and value.isprintable():
        return value[:1024]
    return "".join(c if " " <= c <= "~" else "?" for c in value)[:1024]
