"""What an answer used, worked out after it is out: for ledger, limits, recount and log."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from typing import TYPE_CHECKING, NamedTuple

from zlrs_proxy.coding import CodingError
from zlrs_proxy.route import Endpoint
from zlrs_proxy.usage import Usage, usage_of
from zlrs_proxy.view import named_in

if TYPE_CHECKING:
    from zlrs_proxy.capture import Capture
    from zlrs_proxy.clock import Clock
    from zlrs_proxy.exchange import Exchange
    from zlrs_proxy.keys import Client
    from zlrs_proxy.ledger import Ledger
    from zlrs_proxy.limits import Limits
    from zlrs_proxy.metrics import Metrics
    from zlrs_proxy.recount import Count
    from zlrs_proxy.tap import Tap

_LOG = logging.getLogger("zlrs_proxy")
_ACCESS = logging.getLogger("zlrs_proxy.requests")
_EVERY_SECONDS = 0.25
_SHORT_BYTES = 64 * 1024
_WAITING_LIMIT = 4096
_WAITING_BYTES = 64 << 20
_REPEATS_LIMIT = 4096
_HEAD_END = b"\r\n\r\n"
_NONE = Usage()


class Entry(NamedTuple):
    """One answer whose tokens are to be found."""

    what: str
    request: bytes
    answer: Tap | bytes
    upstream: str
    cohort: str
    client: Client | None
    recount: Count | None
    line: dict[str, object] | None
    status: int
    is_understood: bool
    """Whether it is of an endpoint whose answers have tokens."""


class Found(NamedTuple):
    """What was found."""

    entry: Entry
    usage: Usage | None
    model: str
    declared: int


class _Repeat:
    """A stored answer as it travels, and how often it was given since the last time sums were made."""

    __slots__ = ("at_ms", "request", "sent", "times", "upstream")

    def __init__(self, request: bytes, sent: bytes, upstream: str, at_ms: int) -> None:
        self.request = request
        self.sent = sent
        self.upstream = upstream
        self.at_ms = at_ms
        self.times = 0

    def found(self) -> Found:
        """What it used."""
        body, answer = self.request.partition(_HEAD_END)[2], self.sent.partition(_HEAD_END)[2]
        return _find(Entry("saved", body, answer, self.upstream, "", None, None, None, 200, True))


class Accounts:
    """Reads short answers after they are out, long ones in batches in a thread, never on the caller's time.

    When more comes than can be worked off, answers are counted as dropped and nothing waits.
    """

    def __init__(
        self,
        clock: Clock,
        metrics: Metrics,
        limits: Limits,
        ledger: Ledger | None,
        capture: Capture | None = None,
    ) -> None:
        self._capture = capture
        self._clock = clock
        self._metrics = metrics
        self._limits = limits
        self._ledger = ledger
        self._log = False
        self.is_on = ledger is not None or capture is not None
        """Whether answers have to be kept for this at all."""
        self._waiting: deque[Entry] = deque()
        self._repeats: dict[bytes, _Repeat] = {}
        self._bytes = 0
        self._task: asyncio.Task[None] | None = None

    def configure(self, *, has_limits: bool, recount: bool, log: bool) -> None:
        """What the configuration needs answers for, besides the ledger."""
        self._log = log
        if self._capture is not None:
            self._capture.begin()
        is_kept = self._ledger is not None or self._capture is not None
        self.is_on = is_kept or has_limits or recount or log

    def answered(self, exchange: Exchange, request: bytes, tap: Tap) -> None:
        """The upstream has answered, wholly or in part."""
        if self._capture is not None:
            self._capture.answered(exchange, request, tap, tap.status)
        self._add(exchange, "spent", request, tap, tap.status, 0 if tap.overflowed else tap.count)

    def replayed(self, exchange: Exchange, request: bytes, content: bytes) -> None:
        """The graph has answered."""
        if self._capture is not None:
            self._capture.answered(exchange, request, content, 200)
        self._add(exchange, "merged" if exchange.waited else "saved", request, content, 200, len(content))

    @property
    def needs_each(self) -> bool:
        """Whether every answer is looked at by itself: it is logged, or kept."""
        return self._log or self._capture is not None

    def repeated(self, mark: bytes, request: bytes, sent: bytes, upstream: str, now_ms: int) -> None:
        """The graph has answered a plain request, both as they travel; read later, once for each mark."""
        if not self.is_on:
            return
        known = self._repeats.get(mark)
        if known is None:
            size = len(request) + len(sent)
            if len(self._repeats) >= _REPEATS_LIMIT or self._bytes + size > _WAITING_BYTES:
                self._metrics.usage_dropped.add()
                return
            self._bytes += size
            known = self._repeats[mark] = _Repeat(request, sent, upstream, now_ms)
            if self._task is None:
                self._task = asyncio.ensure_future(self._run())
        known.times += 1

    def _note(self, found: Found, at_ms: int, times: int) -> None:
        """Into the ledger, where there is one."""
        if self._ledger is not None:
            entry, usage = found.entry, found.usage
            what = "unknown" if usage is None else entry.what
            usage = usage or _NONE
            label, cohort = entry.upstream, entry.cohort
            self._ledger.add(at_ms, what, found.model, label, cohort, usage, found.declared, times)

    def _add(
        self, exchange: Exchange, what: str, request: bytes, answer: Tap | bytes, status: int, size: int
    ) -> None:
        is_understood = exchange.endpoint is not Endpoint.OTHER
        if not self.is_on or not (is_understood or self._log):
            return
        if len(self._waiting) >= _WAITING_LIMIT or self._bytes > _WAITING_BYTES:
            self._metrics.usage_dropped.add()
            return
        member = exchange.member or (exchange.order[0] if exchange.order else None)
        entry = Entry(
            what,
            request,
            answer,
            member.label if member is not None else "",
            exchange.controls.cohort or "",
            exchange.client,
            exchange.count,
            exchange.line(status) if self._log else None,
            status,
            is_understood,
        )
        if self._task is None:
            self._task = asyncio.ensure_future(self._run())
        if size + len(request) <= _SHORT_BYTES and (isinstance(answer, bytes) or answer.is_plain):
            # Microseconds: sooner done than handed over, and nothing is kept.
            asyncio.get_running_loop().call_soon(self._one, entry)
            return
        self._bytes += size + len(request)
        self._waiting.append(entry)

    def _one(self, entry: Entry) -> None:
        self._apply(_find(entry))

    async def close(self) -> None:
        """Work off what waits and write the ledger's last minute."""
        await asyncio.sleep(0)
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})
            self._task = None
        await self._work()
        await self._write(None)
        if self._capture is not None:
            await self._capture.close()

    async def settle(self) -> None:
        """Work off what waits now."""
        await asyncio.sleep(0)
        await self._work()

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(_EVERY_SECONDS)
            await self._work()
            await self._write(self._clock.wall_ms())

    async def _work(self) -> None:
        batch, repeats = list(self._waiting), list(self._repeats.values())
        self._waiting.clear()
        self._repeats.clear()
        self._bytes = 0
        if not batch and not repeats:
            return
        found, repeated = await asyncio.to_thread(_find_all, batch, repeats)
        for one in found:
            self._apply(one)
        for one, repeat in zip(repeated, repeats, strict=True):
            self._note(one, repeat.at_ms, repeat.times)

    def _apply(self, found: Found) -> None:
        entry, usage = found.entry, found.usage
        is_upstream = entry.what == "spent"
        if usage is not None and is_upstream and entry.client is not None:
            self._limits.spend(entry.client, usage.total)
        if usage is not None and is_upstream and entry.recount is not None:
            self._metrics.recount(entry.recount.tokens, usage.prompt)
        if entry.is_understood and entry.status == 200:  # noqa: PLR2004 - a status is clearest by its number
            self._note(found, self._clock.wall_ms(), 1)
        if entry.line is not None:
            fields = entry.line | {"zero_layer_bypass": not is_upstream}
            if usage is not None:
                fields |= {"input_tokens": usage.prompt, "output_tokens": usage.output}
            if entry.recount is not None:
                fields |= {"local_tokens": entry.recount.tokens, "local_method": entry.recount.method}
                if usage is not None:
                    fields["token_delta"] = entry.recount.tokens - usage.prompt
            _ACCESS.info("request", extra={"fields": fields})

    async def _write(self, before_ms: int | None) -> None:
        if self._ledger is None:
            return
        rows = self._ledger.take(before_ms)
        if not rows:
            return
        try:
            await asyncio.to_thread(self._ledger.write, rows)
        except OSError as error:
            self._metrics.usage_dropped.add()
            _LOG.warning("the ledger cannot be written", extra={"fields": {"error": type(error).__name__}})


def _find_all(batch: list[Entry], repeats: list[_Repeat]) -> tuple[list[Found], list[Found]]:
    return [_find(entry) for entry in batch], [repeat.found() for repeat in repeats]


def _find(entry: Entry) -> Found:
    body = b""
    if isinstance(entry.answer, bytes):
        body = entry.answer
    elif not entry.answer.overflowed:
        try:
            body = entry.answer.decoded()
        except CodingError:
            body = b""
    usage, model = usage_of(body)
    asked, declared = named_in(entry.request) if entry.request else ("", 0)
    return Found(entry, usage, model or asked or "unknown", declared)
