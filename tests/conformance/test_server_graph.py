"""The decision graph in front of the engine: order of the rooms, receipts, failing open."""

from __future__ import annotations

import asyncio
import threading
import time
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest

from support.events import parse_events
from support.eventually import eventually
from support.fake_engine import Script
from support.memory_graph import MemoryDecision, MemoryGraph
from support.serving import MODEL, Served, serving
from zlrs.config import ServerSettings
from zlrs.server.graph_front import GraphFront

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from aiohttp import ClientResponse

PATHS = ["/v1/messages", "/v1/chat/completions"]


class NoticingGraph(MemoryGraph):
    """With what only the server's own graph is asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.reported: list[str] = []

    def state(self) -> str:
        return "ready"

    def notices(self) -> list[str]:
        return []


@asynccontextmanager
async def with_graph(
    script: Script | None = None, server: ServerSettings | None = None
) -> AsyncIterator[tuple[Served, NoticingGraph, GraphFront]]:
    graph = NoticingGraph()
    front = GraphFront(graph, "zlrs:sum", time.time, graph.reported.append)
    async with serving(script, graph=front, server=server) as served:
        yield served, graph, front
        await front.close()
    assert graph.closed


async def ask(
    served: Served, path: str, *, headers: dict[str, str] | None = None, **fields: object
) -> tuple[ClientResponse, str]:
    body = {
        "model": MODEL,
        "max_tokens": 50,
        "temperature": 0,
        "messages": [{"role": "user", "content": "hi"}],
    }
    async with served.client.post(path, json={**body, **fields}, headers=headers) as response:
        return response, await response.text()


async def settled(graph: NoticingGraph, count: int) -> None:
    await eventually(lambda: len(graph.reported) >= count)


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("first_streams", [False, True])
async def test_the_repeat_comes_from_the_graph_in_either_form(path: str, first_streams: bool) -> None:
    async with with_graph(Script(reply="the answer")) as (served, graph, _):
        response, _ = await ask(served, path, stream=first_streams)
        assert response.headers["X-ZLRS-Decision"].startswith("miss;")
        assert response.headers["X-ZLRS-Audit"] == "aud_2"
        assert "X-ZLRS-Compute-Profile" in response.headers
        await settled(graph, 1)
        for stream in (False, True):
            response, text = await ask(served, path, stream=stream)
            assert response.status == 200
            assert response.headers["X-ZLRS-Decision"].startswith("hit;route=same;")
            assert "bound=replay" in response.headers["X-ZLRS-Decision"]
            assert "X-ZLRS-Compute-Profile" not in response.headers
            assert response.content_type == ("text/event-stream" if stream else "application/json")
            if stream:
                parse_events(text)
            assert "fresh" in text
        assert len(served.core.submitted) == 1
        assert graph.reported == ["stored"]
        async with served.client.get("/metrics") as page:
            lines = (await page.text()).splitlines()
        assert 'zlrs_graph_decisions_total{kind="hit"} 2' in lines
        assert 'zlrs_graph_decisions_total{kind="miss"} 1' in lines


async def test_a_hit_needs_no_place_in_the_queue() -> None:
    script = Script(reply="answer")
    async with with_graph(script, ServerSettings(queue_limit=1)) as (served, graph, _):
        await ask(served, "/v1/messages")
        await settled(graph, 1)
        script.hold_before = frozenset({2})
        busy = asyncio.create_task(ask(served, "/v1/messages", temperature=1))
        await asyncio.to_thread(script.held.wait, 20)
        response, _ = await ask(served, "/v1/messages", temperature=1)
        assert response.status == 529
        response, _ = await ask(served, "/v1/messages")
        assert response.headers["X-ZLRS-Decision"].startswith("hit;")
        script.go.set()
        await busy


@pytest.mark.parametrize("name", ["X-ZLRS-No-Graph", "bypass-zero-layer"])
async def test_no_graph_asks_the_engine(name: str) -> None:
    async with with_graph() as (served, graph, _):
        await ask(served, "/v1/messages")
        await settled(graph, 1)
        await ask(served, "/v1/messages", headers={name: "true"})
        assert len(served.core.submitted) == 2


async def test_historical_clients_hear_of_a_hit_in_kind() -> None:
    async with with_graph() as (served, graph, _):
        await ask(served, "/v1/messages")
        await settled(graph, 1)
        response, _ = await ask(served, "/v1/messages", headers={"X-Anthropic-Diagnostic": "off"})
        assert response.headers["X-Zero-Layer-Bypass"] == "true"
        assert "X-Anthropic-Model-Version" in response.headers


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("stream", [False, True])
async def test_a_cache_only_miss_is_computed_on_the_side(path: str, stream: bool) -> None:
    only = {"X-ZLRS-Cache-Only": "true"}
    async with with_graph() as (served, graph, _):
        response, text = await ask(served, path, headers=only, stream=stream)
        assert response.status == 504
        assert '"cache_only_miss"' in text
        assert response.headers["X-ZLRS-Decision"].startswith("fill;")
        await settled(graph, 1)
        assert graph.reported == ["stored"]
        response, _ = await ask(served, path, headers=only, stream=stream)
        assert response.status == 200
        assert len(served.core.submitted) == 1


async def test_one_fill_of_an_ask_at_a_time_and_none_that_cannot_be_stored() -> None:
    only = {"X-ZLRS-Cache-Only": "true"}
    script = Script(reply="answer", hold_before=frozenset({2}))
    async with with_graph(script) as (served, graph, _):
        for _ in range(3):
            response, _ = await ask(served, "/v1/messages", headers=only)
            assert response.headers["X-ZLRS-Decision"].startswith("fill;")
        response, text = await ask(served, "/v1/messages", headers=only, temperature=1)
        assert response.status == 504
        assert "X-ZLRS-Decision" in response.headers
        assert "being computed" not in text
        script.go.set()
        await settled(graph, 1)
        await eventually(lambda: not len(served.context.fills))
        assert len(served.core.submitted) == 1


async def test_a_full_queue_fills_nothing() -> None:
    script = Script(reply="answer", hold_before=frozenset({2}))
    async with with_graph(script, ServerSettings(queue_limit=1)) as (served, _, _):
        busy = asyncio.create_task(ask(served, "/v1/messages", temperature=1))
        await asyncio.to_thread(script.held.wait, 20)
        response, text = await ask(served, "/v1/messages", headers={"X-ZLRS-Cache-Only": "true"})
        assert response.status == 504
        assert "being computed" not in text
        script.go.set()
        await busy
        assert len(served.core.submitted) == 1


async def test_a_graph_that_fails_costs_nothing_but_the_hit() -> None:
    async with with_graph() as (served, graph, _):
        graph.fail_decide = True
        response, _ = await ask(served, "/v1/messages")
        assert response.status == 200
        assert response.headers["X-ZLRS-Decision"] == "skipped;reason=graph_error"
        graph.fail_decide, graph.fail_settle = False, True
        response, _ = await ask(served, "/v1/messages")
        assert response.status == 200
        response, _ = await ask(served, "/v1/messages")
        assert response.headers["X-ZLRS-Decision"].startswith("miss;")


class HeldGraph(NoticingGraph):
    """Has to read something first, and that takes until it is let go."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = threading.Event()
        self.go = threading.Event()

    def decide(self, *request: object) -> MemoryDecision:
        self.asked.set()
        self.go.wait(20)
        return super().decide(*request)


async def test_a_graph_that_has_to_read_holds_up_nobody_else() -> None:
    graph = HeldGraph()
    front = GraphFront(graph, "zlrs:sum", time.time, graph.reported.append, decide_seconds=20)
    async with serving(Script(reply="answer"), graph=front) as served:
        waiting = asyncio.create_task(ask(served, "/v1/messages"))
        assert await asyncio.to_thread(graph.asked.wait, 20)
        async with served.client.get("/metrics") as page:
            assert page.status == 200
        assert not waiting.done()
        graph.go.set()
        response, _ = await waiting
        assert response.headers["X-ZLRS-Decision"].startswith("miss;")
        await front.close()


async def test_a_graph_that_is_late_is_left_out() -> None:
    graph = HeldGraph()
    front = GraphFront(graph, "zlrs:sum", time.time, graph.reported.append, decide_seconds=0.01)
    async with serving(Script(reply="answer"), graph=front) as served:
        response, _ = await ask(served, "/v1/messages")
        assert response.status == 200
        assert response.headers["X-ZLRS-Decision"] == "skipped;reason=store_unavailable"
        graph.go.set()
        await front.close()


class QuickGraph(NoticingGraph):
    """Has everything in memory."""

    def __init__(self) -> None:
        super().__init__()
        self.threads: set[str] = set()

    def decide_now(self, *request: object) -> MemoryDecision:
        self.threads.add(threading.current_thread().name)
        return MemoryGraph.decide(self, *request)

    def decide(self, *_: object) -> MemoryDecision:
        raise AssertionError("asked twice")


async def test_what_the_graph_remembers_needs_no_thread() -> None:
    graph = QuickGraph()
    front = GraphFront(graph, "zlrs:sum", time.time, graph.reported.append)
    async with serving(Script(reply="answer"), graph=front) as served:
        await ask(served, "/v1/messages")
        await settled(graph, 1)
        response, _ = await ask(served, "/v1/messages")
        assert response.headers["X-ZLRS-Decision"].startswith("hit;")
        assert graph.threads == {threading.current_thread().name}
        await front.close()


async def test_failed_and_abandoned_answers_are_not_settled() -> None:
    script = Script(reply="abcdef", fail_before=2)
    async with with_graph(script) as (served, graph, _):
        await ask(served, "/v1/messages")
        await ask(served, "/v1/messages", stream=True)
        script.fail_before, script.hold_before = None, frozenset({2})
        gone = asyncio.create_task(ask(served, "/v1/messages", stream=True))
        await asyncio.to_thread(script.held.wait, 20)
        gone.cancel()
        await asyncio.gather(gone, return_exceptions=True)
        await asyncio.wait_for(served.context.admission.idle.wait(), 10)
        assert graph.settled == []


async def test_bad_requests_never_reach_the_graph() -> None:
    async with with_graph() as (served, graph, _):
        response, _ = await ask(served, "/v1/messages", messages=[])
        assert response.status == 400
        assert graph.decided == 0
