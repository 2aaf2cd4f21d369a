"""A graph that fails, is slow or is not there: requests pass, and are not slowed."""

from __future__ import annotations

import asyncio

import pytest

from support.eventually import eventually
from support.memory_graph import MemoryGraph
from support.running import message


async def test_a_graph_that_cannot_be_opened(start_sidecar, upstream) -> None:
    def broken():
        raise OSError("no such disk")

    sidecar = await start_sidecar(opener=broken)
    for _ in range(2):
        got = await sidecar.ask(body=message())
        assert (got.status, got.header("x-zlrs-decision")) == (200, "skipped;reason=store_unavailable")
    assert len(upstream.calls) == 2


async def test_a_graph_that_does_not_answer_is_bypassed(start_sidecar, upstream) -> None:
    graph = MemoryGraph()
    sidecar = await start_sidecar(graph=graph, decide_seconds=0.05)
    await sidecar.ask(body=message())
    graph.decide_delay_s = 1.0
    got = await asyncio.gather(*(sidecar.ask(body=message()) for _ in range(20)))
    assert {one.header("x-zlrs-decision") for one in got} == {"skipped;reason=store_unavailable"}
    assert [one.status for one in got] == [200] * 20
    # All were answered while the first two were still being decided.
    assert graph.decided == 3


async def test_decide_fails(start_sidecar, upstream) -> None:
    graph = MemoryGraph()
    sidecar = await start_sidecar(graph=graph)
    await sidecar.ask(body=message())
    graph.fail_decide = True
    got = await sidecar.ask(body=message())
    assert (got.status, got.header("x-zlrs-decision")) == (200, "skipped;reason=store_unavailable")
    graph.fail_decide = False
    assert (await sidecar.ask(body=message())).decision == "hit"


@pytest.mark.parametrize(
    "fault", [OSError("gone"), RuntimeError("poisoned"), ValueError("bad"), MemoryError()]
)
async def test_replay_fails_and_upstream_answers(start_sidecar, upstream, fault, monkeypatch) -> None:
    sidecar = await start_sidecar(graph=MemoryGraph())
    await sidecar.ask(body=message())

    def fail(_self):
        raise fault

    monkeypatch.setattr("support.memory_graph.MemoryDecision.replay", fail)
    got = await sidecar.ask(body=message())
    assert (got.status, got.header("x-zlrs-decision")) == (200, "skipped;reason=store_corrupt")
    assert len(upstream.calls) == 2


async def test_settle_fails(start_sidecar, upstream) -> None:
    graph = MemoryGraph()
    graph.fail_settle = True
    sidecar = await start_sidecar(graph=graph)
    for _ in range(3):
        got = await sidecar.ask(body=message())
        assert (got.status, got.decision) == (200, "miss")
        await sidecar.settled()
    assert sidecar.sidecar.metrics.settled("error") == 3


async def test_a_slow_store_costs_no_caller_anything(start_sidecar, upstream) -> None:
    graph = MemoryGraph()
    graph.settle_delay_s = 0.15
    sidecar = await start_sidecar(graph=graph)
    got = await asyncio.gather(*(sidecar.ask(body=message(f"ask {i}")) for i in range(8)))
    # All are answered while the first is still being settled.
    assert [one.status for one in got] == [200] * 8
    assert len(graph.settled) <= 1


async def test_what_waits_for_settling_is_bounded(start_sidecar, upstream) -> None:
    graph = MemoryGraph()
    graph.settle_delay_s = 0.2
    sidecar = await start_sidecar(graph=graph, settle_queue_limit=2)
    for i in range(6):
        assert (await sidecar.ask(body=message(f"ask {i}"))).status == 200
    assert sidecar.sidecar.metrics.settled("queue_full") == 4


async def test_stop_writes_what_is_queued_and_closes_the_graph(start_sidecar, upstream) -> None:
    graph = MemoryGraph()
    graph.settle_delay_s = 0.1
    sidecar = await start_sidecar(graph=graph)
    await sidecar.ask(body=message())
    await sidecar.sidecar.stop(1)
    assert len(graph.texts) == 1
    assert graph.closed
    await eventually(lambda: not sidecar.sidecar.metrics.in_flight)
