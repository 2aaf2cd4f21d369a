"""The short way of a plain request: from its bytes to the bytes of a stored answer.

Most hits are whole `POST`s with nothing about them that needs a second look. The native core reads such a
request by itself and gives the whole answer. Everything else, also every miss, goes the way of all requests;
what was decided goes with it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from zlrs_proxy.decide import UNDECIDED
from zlrs_proxy.respond import http_date

if TYPE_CHECKING:
    from zlrs_proxy.accept import HostRule
    from zlrs_proxy.accounts import Accounts
    from zlrs_proxy.clock import Clock
    from zlrs_proxy.decide import Decider, Verdict
    from zlrs_proxy.metrics import Metrics
    from zlrs_proxy.pool import Member

LIMIT_BYTES = 64 * 1024
"""Longer requests are read by others."""


class PlainWay:
    """Answers plain requests of callers who need no key.

    Args:
        decider: Asks the graph.
        accounts: Hears of hits.
        hosts: Which hosts are served; only those that have been checked before are answered here.
        member: Whose answers the graph has.
        metrics: Counts.
        clock: Time.
        receipts: Whether answers say what was decided.
    """

    def __init__(
        self,
        decider: Decider,
        accounts: Accounts,
        hosts: HostRule,
        member: Member,
        metrics: Metrics,
        clock: Clock,
        *,
        receipts: bool,
    ) -> None:
        self._decider = decider
        self._accounts = accounts
        self._hosts = hosts
        self._member = member
        self._metrics = metrics
        self._clock = clock
        self._receipts = receipts

    def answer(self, data: bytes) -> bytes | Verdict | None:
        """What to send, or what was decided about the request; None where nothing was."""
        if len(data) > LIMIT_BYTES or not self._hosts.checked or self._accounts.needs_each:
            return None
        began = self._clock.monotonic()
        now_ms = self._clock.wall_ms()
        upstream, date = self._member.upstream.name, http_date(now_ms // 1000)
        found = self._decider.plain(
            data, self._hosts.checked, upstream, now_ms, date, receipts=self._receipts
        )
        if found is None:
            return None
        verdict, sent, mark = found
        if verdict is UNDECIDED:
            return verdict
        seconds = self._clock.monotonic() - began
        metrics = self._metrics
        metrics.decide_seconds.observe(seconds)
        if sent is None or mark is None or verdict.decision is None:
            return verdict
        metrics.first_byte_seconds.observe(seconds)
        metrics.requests.add(verdict.decision.protocol, "hit", "2xx")
        self._accounts.repeated(mark, data, sent, self._member.label, now_ms)
        return sent
