"""What is known about one request while it walks through the rooms, and the receipts made of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zlrs_proxy.controls import Controls
from zlrs_proxy.decide import Verdict, skipped
from zlrs_proxy.ids import request_id
from zlrs_proxy.route import Endpoint

if TYPE_CHECKING:
    from aiohttp import web

    from zlrs.wire import Protocol
    from zlrs_proxy.accept import Target
    from zlrs_proxy.clock import Clock
    from zlrs_proxy.names import RawHeaders


class Exchange:
    """One request and what became of it. Times are seconds since it was accepted."""

    def __init__(self, request: web.BaseRequest, clock: Clock) -> None:
        self._clock = clock
        self._started = clock.monotonic()
        self.request = request
        self.request_id = request_id()
        self.headers: RawHeaders = request.raw_headers
        self.target: Target | None = None
        self.endpoint = Endpoint.OTHER
        self.protocol: Protocol = "messages"
        self.controls = Controls()
        self.verdict: Verdict = skipped("not_asked")
        self.is_probe = False
        self.flights_before = 0
        """How many flights had landed when the graph was asked."""
        self.decide_seconds: float | None = None
        self.upstream_seconds: float | None = None
        self.first_byte_seconds: float | None = None

    def elapsed(self) -> float:
        """Seconds since the request was accepted."""
        return self._clock.monotonic() - self._started

    def first_byte(self) -> None:
        """The first byte of the answer has been written."""
        if self.first_byte_seconds is None:
            self.first_byte_seconds = self.elapsed()

    def receipts(self) -> list[tuple[str, str]]:
        """Headers that say what was done."""
        found = [("X-ZLRS-Request-Id", self.request_id), ("X-ZLRS-Decision", _safe(self.verdict.header))]
        if self.verdict.audit:
            found.append(("X-ZLRS-Audit", _safe(self.verdict.audit)))
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
    return "".join(c if " " <= c <= "~" else "?" for c in value)[:1024]
