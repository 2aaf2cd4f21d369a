"""What plain hits used is worked out after they are out, within limits."""

from __future__ import annotations

import asyncio
import json

import pytest

from zlrs_proxy import accounts, ledger
from zlrs_proxy.accounts import Accounts
from zlrs_proxy.clock import Clock
from zlrs_proxy.ledger import Ledger
from zlrs_proxy.limits import Limits
from zlrs_proxy.metrics import Metrics

USED = {"prompt_tokens": 10, "completion_tokens": 3, "total_tokens": 13}
REQUEST = b"POST / HTTP/1.1\r\n\r\n" + json.dumps({"model": "m", "max_tokens": 5}).encode()
ANSWER = b"HTTP/1.1 200 OK\r\n\r\n" + json.dumps({"model": "m", "usage": USED}).encode()


def dropped(metrics: Metrics) -> int:
    return metrics.usage_dropped.get()


@pytest.fixture
def made(tmp_path):
    metrics, clock = Metrics(), Clock()
    return Accounts(clock, metrics, Limits(clock), Ledger(str(tmp_path), 1)), metrics


async def test_nothing_is_read_while_the_caller_waits(made, tmp_path, monkeypatch) -> None:
    known, metrics = made
    read: list[str] = []
    find = accounts._find

    def noted(entry):
        read.append(entry.what)
        return find(entry)

    monkeypatch.setattr(accounts, "_find", noted)
    for _ in range(5):
        known.repeated(b"one", REQUEST, ANSWER, "up", 1000)
    known.repeated(b"two", REQUEST, ANSWER, "up", 1000)
    assert read == []
    await known.settle()
    assert read == ["saved", "saved"]
    assert known._bytes == 0
    await known.close()
    rows = list(ledger.read(tmp_path))
    assert [(row.what, row.requests, row.input, row.output, row.declared) for row in rows] == [
        ("saved", 6, 60, 18, 30)
    ]
    assert dropped(metrics) == 0


async def test_what_waits_is_bounded_and_the_rest_is_counted(made, tmp_path, monkeypatch) -> None:
    known, metrics = made
    monkeypatch.setattr(accounts, "_WAITING_BYTES", 3 * (len(REQUEST) + len(ANSWER)))
    for mark in range(10):
        for _ in range(2):
            known.repeated(b"%d" % mark, REQUEST, ANSWER, "up", 1000)
    assert known._bytes <= 3 * (len(REQUEST) + len(ANSWER))
    assert dropped(metrics) == 14
    await known.settle()
    # There is room again.
    known.repeated(b"9", REQUEST, ANSWER, "up", 1000)
    monkeypatch.setattr(accounts, "_REPEATS_LIMIT", 1)
    known.repeated(b"8", REQUEST, ANSWER, "up", 1000)
    assert dropped(metrics) == 15
    await known.close()
    await asyncio.sleep(0)
    assert sum(row.requests for row in ledger.read(tmp_path)) == 7
