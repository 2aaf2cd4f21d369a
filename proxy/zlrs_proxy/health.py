"""Probes and metrics: on the admin address, or under `/zlrs/` on the main one: no upstream path is hidden."""

from __future__ import annotations

import hashlib
import hmac
from enum import Enum
from typing import TYPE_CHECKING

from zlrs_proxy import metrics as prometheus
from zlrs_proxy.names import RawHeaders, value_of
from zlrs_proxy.respond import PlainResponse, whole_response

if TYPE_CHECKING:
    from collections.abc import Callable

PREFIX = "/zlrs"
_PROBES = ("/livez", "/readyz", "/startupz")


class Phase(Enum):
    """Where the process is in its life."""

    STARTING = "starting"
    READY = "ready"
    DRAINING = "draining"


class Health:
    """Answers probes and metrics.

    Args:
        text: Makes the metrics' text.
        token: Where given, metrics need it as `Authorization: Bearer`.
    """

    def __init__(self, text: Callable[[], str], token: str | None = None) -> None:
        self.phase = Phase.STARTING
        self._text = text
        self._token = None if token is None else hashlib.sha256(token.encode()).digest()

    def answer(self, method: str, path: str, headers: RawHeaders) -> PlainResponse | None:
        """The response for one of our paths; None for any other."""
        if path not in _PROBES and path != "/metrics":
            return None
        if method not in {"GET", "HEAD"}:
            return whole_response(405, b"only GET and HEAD\n", "text/plain", [("Allow", "GET, HEAD")])
        if path == "/metrics":
            return self._metrics(headers)
        good = {
            "/livez": True,
            "/readyz": self.phase is Phase.READY,
            "/startupz": self.phase is not Phase.STARTING,
        }[path]
        content = f"{self.phase.value}\n".encode()
        return whole_response(200 if good else 503, content, "text/plain", [("Cache-Control", "no-store")])

    def _metrics(self, headers: RawHeaders) -> PlainResponse:
        if self._token is not None:
            given = (value_of(headers, b"authorization") or b"").removeprefix(b"Bearer ").strip()
            if not hmac.compare_digest(hashlib.sha256(given).digest(), self._token):
                return whole_response(
                    401, b"the admin token is needed\n", "text/plain", [("WWW-Authenticate", "Bearer")]
                )
        return whole_response(
            200, self._text().encode(), prometheus.CONTENT_TYPE, [("Cache-Control", "no-store")]
        )
