"""The moment between a decision and joining a flight loses nothing."""

from __future__ import annotations

import asyncio

from support.eventually import eventually
from support.memory_graph import MemoryGraph
from support.running import message


async def test_a_repeat_at_any_moment_of_settling_is_a_hit(start_sidecar, upstream) -> None:
    graph = MemoryGraph()
    sidecar = await start_sidecar(graph=graph, decide_seconds=5)
    for step in range(12):
        graph.settle_delay_s = 0.004 * step
        graph.decide_delay_s = 0.004 * (12 - step)
        first = await sidecar.ask(body=message(f"step {step}"))
        second = await sidecar.ask(body=message(f"step {step}", stream=True))
        assert (first.decision, second.decision) == ("miss", "hit")
    assert len(upstream.calls) == 12


async def test_a_flight_that_lands_during_a_decision_is_seen(start_sidecar, upstream) -> None:
    graph = MemoryGraph()
    sidecar = await start_sidecar(graph=graph, decide_seconds=5)
    graph.settle_delay_s = 0.1
    first = asyncio.ensure_future(sidecar.ask(body=message()))
    await upstream.called()
    await first
    # Decided before the entry is there, answered after it is.
    inner = graph.decide

    def late(*arguments):
        decision = inner(*arguments)
        graph.decide = inner
        while not graph.texts:
            pass
        asyncio.run_coroutine_threadsafe(asyncio.sleep(0.05), loop).result()
        return decision

    loop = asyncio.get_running_loop()
    graph.decide = late
    got = await sidecar.ask(body=message())
    assert got.decision == "hit"
    assert len(upstream.calls) == 1
    await eventually(lambda: not sidecar.sidecar.metrics.in_flight)
