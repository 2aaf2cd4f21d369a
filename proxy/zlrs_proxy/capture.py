"""Bodies of requests and answers, kept where the operator asked for that: masked, cut, and for a time only.

Files of JSON lines under the state folder, one an hour and process, mode 0600. A line has a request's ids and
both bodies as text with every personal number masked. Headers, and so credentials, are never in it.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import os
import secrets
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from zlrs.texts import KINDS, redact
from zlrs_proxy.coding import CodingError, decode
from zlrs_proxy.names import value_of
from zlrs_proxy.route import Endpoint

if TYPE_CHECKING:
    from zlrs_proxy.clock import Clock
    from zlrs_proxy.exchange import Exchange
    from zlrs_proxy.settings import CaptureSettings
    from zlrs_proxy.tap import Tap

_LOG = logging.getLogger("zlrs_proxy")
_HOUR_MS = 3_600_000
_DAY_MS = 24 * _HOUR_MS
_WAITING_LIMIT = 64
_SPACE = 2.0**64


class Captured(msgspec.Struct, frozen=True, omit_defaults=True):
    """One line."""

    request_id: str
    audit: str
    at_ms: int
    decision: str
    status: int
    request: str
    answer: str
    is_cut: bool = False
    """Whether a body was longer than what is kept of it."""


class _Waiting(NamedTuple):
    exchange_id: str
    audit: str
    at_ms: int
    decision: str
    status: int
    request: bytes
    coding: str
    answer: Tap | bytes


class Capture:
    """Writes in a thread of its own; past 64 waiting ones a request is left out and counted.

    Args:
        folder: The state folder.
        settings: How much, how long.
        clock: Time of the lines.
    """

    def __init__(self, folder: str, settings: CaptureSettings, clock: Clock) -> None:
        self._folder = capture_folder(folder)
        self._settings = settings
        self._clock = clock
        self._name = secrets.token_hex(4)
        self._worker = ThreadPoolExecutor(1, thread_name_prefix="zlrs-capture")
        self._waiting = 0
        self._hour = -1
        self._timer: asyncio.TimerHandle | None = None
        self.left_out = 0

    def begin(self) -> None:
        """Remove what is too old, now and every hour, also while nothing is asked. May be called again."""
        if self._timer is None:
            self._tidy_hourly()

    def _tidy_hourly(self) -> None:
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(_HOUR_MS / 1000, self._tidy_hourly)
        loop.run_in_executor(self._worker, self.tidy, self._clock.wall_ms())

    def answered(self, exchange: Exchange, request: bytes, answer: Tap | bytes, status: int) -> None:
        """An answer is out, of the upstream (its tap) or of the graph (its bytes)."""
        if exchange.endpoint is Endpoint.OTHER or not self._is_drawn(exchange.request_id):
            return
        if self._waiting >= _WAITING_LIMIT:
            self.left_out += 1
            return
        coding = (value_of(exchange.headers, b"content-encoding") or b"").decode("latin-1")
        verdict = exchange.verdict
        one = _Waiting(
            exchange.request_id,
            verdict.audit,
            self._clock.wall_ms(),
            verdict.kind,
            status,
            request,
            coding,
            answer,
        )
        self._waiting += 1
        writing = asyncio.get_running_loop().run_in_executor(self._worker, self._write, one)
        writing.add_done_callback(self._written)

    async def close(self) -> None:
        """Write what waits."""
        if self._timer is not None:
            self._timer.cancel()
        await asyncio.to_thread(self._worker.shutdown)

    def _is_drawn(self, request_id: str) -> bool:
        share = self._settings.share
        if share >= 1:
            return True
        digest = hashlib.blake2b(request_id.encode(), digest_size=8).digest()
        return int.from_bytes(digest, "big") / _SPACE < share

    def _written(self, writing: asyncio.Future[None]) -> None:
        self._waiting -= 1
        if not writing.cancelled() and (error := writing.exception()) is not None:
            self.left_out += 1
            _LOG.warning("a body cannot be kept", extra={"fields": {"error": type(error).__name__}})

    def _write(self, one: _Waiting) -> None:
        request, request_cut = self._text(_decoded(one.request, one.coding, self._settings.body_bytes * 64))
        answer, answer_cut = self._text(_answer(one.answer))
        line = Captured(
            one.exchange_id,
            one.audit,
            one.at_ms,
            one.decision,
            one.status,
            request,
            answer,
            request_cut or answer_cut,
        )
        hour = one.at_ms // _HOUR_MS
        if hour != self._hour:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._hour = hour
            self.tidy(one.at_ms)
        path = self._folder / f"{hour:08d}_{self._name}.jsonl"
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            os.write(descriptor, msgspec.json.encode(line) + b"\n")
        finally:
            os.close(descriptor)
        if path.stat().st_size > self._settings.total_bytes // 8:
            # Another file, so that the oldest part can go.
            self._name = secrets.token_hex(4)
            self.tidy(one.at_ms)

    def _text(self, body: bytes) -> tuple[str, bool]:
        limit = self._settings.body_bytes
        # Masked before it is cut: a number at the edge would not be known for one.
        masked, _ = redact(body.decode("utf-8", "replace"), KINDS)
        kept = masked.encode()[:limit].decode("utf-8", "ignore")
        return kept, len(kept) < len(masked)

    def tidy(self, now_ms: int) -> None:
        """Remove files that are too old, and the oldest ones while there is too much."""
        files = sorted(self._folder.glob("*.jsonl"))
        sizes = {path: path.stat().st_size for path in files}
        first = (now_ms - self._settings.retention_days * _DAY_MS) // _HOUR_MS
        total = sum(sizes.values())
        for path in files:
            hour = path.name.partition("_")[0]
            is_old = hour.isdigit() and int(hour) < first
            if is_old or total > self._settings.total_bytes:
                path.unlink(missing_ok=True)
                total -= sizes[path]


def capture_folder(state_folder: str) -> Path:
    """Where the files are."""
    return Path(state_folder).expanduser() / "capture"


def _decoded(body: bytes, coding: str, limit: int) -> bytes:
    try:
        return decode(body, coding, limit)
    except CodingError:
        return b""


def _answer(answer: Tap | bytes) -> bytes:
    if isinstance(answer, bytes):
        return answer
    try:
        return b"" if answer.overflowed else answer.decoded()
    except CodingError:
        return b""
