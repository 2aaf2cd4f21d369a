"""`X-ZLRS-Compute` and `engine.compute`: what reaches the engine, and what the receipt says of it."""

from __future__ import annotations

import json
import time

import pytest

from support.fake_engine import SKIPS, FakeEngine
from support.memory_graph import MemoryGraph
from support.serving import MODEL, Served, serving
from zlrs.server.graph_front import GraphFront

PATHS = ("/v1/messages", "/v1/chat/completions")
AGGRESSIVE = {"X-ZLRS-Compute": "aggressive"}


def body(**more: object) -> dict[str, object]:
    messages = [{"role": "user", "content": "hi"}]
    return {"model": MODEL, "messages": messages, "max_tokens": 50, "temperature": 0, **more}


async def profile(served: Served, path: str, headers: dict[str, str], **more: object) -> dict:
    async with served.client.post(path, json=body(**more), headers=headers) as response:
        answer = await response.json()
        assert response.status == 200, answer
        receipt = json.loads(response.headers["X-ZLRS-Compute-Profile"])
        assert receipt == answer["zlrs"]["compute_profile"]
        return receipt


def skipping() -> FakeEngine:
    core = FakeEngine()
    core.can_skip = True
    return core


@pytest.mark.parametrize("path", PATHS)
async def test_aggressive_reaches_the_engine_and_the_receipt_counts(path: str) -> None:
    async with serving(core=skipping()) as served:
        receipt = await profile(served, path, AGGRESSIVE)
        assert (receipt["mode"], receipt["sparse_skips"]) == ("aggressive", SKIPS)
        # Of two layers the last was not computed for every token.
        assert receipt["dense_layers"] == 1
        assert served.core.submitted[-1]["compute"] == "aggressive"
        for headers in ({}, {"X-ZLRS-Compute": "exact"}, {"X-ZLRS-Compute": "legacy"}):
            receipt = await profile(served, path, headers)
            assert (receipt["mode"], receipt["sparse_skips"]) == (
                headers.get("X-ZLRS-Compute", "exact"),
                0,
            )
            assert receipt["dense_layers"] == 2
            assert served.core.submitted[-1]["compute"] == "exact"


async def test_with_nothing_installed_it_runs_exact_and_says_so() -> None:
    async with serving() as served:
        receipt = await profile(served, PATHS[0], AGGRESSIVE)
        assert (receipt["mode"], receipt["sparse_skips"]) == ("exact;unavailable=aggressive", 0)


@pytest.mark.parametrize("path", PATHS)
async def test_required_exits_are_passed_on(path: str) -> None:
    async with serving(core=skipping()) as served:
        await profile(served, path, AGGRESSIVE, zlrs={"require_exits": True})
        assert served.core.submitted[-1]["require_exits"] is True
        await profile(served, path, AGGRESSIVE)
        assert served.core.submitted[-1]["require_exits"] is False


@pytest.mark.parametrize("kind", ["exit_head_instability", "compute_profile_mismatch"])
async def test_failures_of_exits_are_errors_of_the_catalogue(kind: str) -> None:
    async with serving(core=skipping()) as served:
        served.script.refuse = (kind, "rows flap")
        async with served.client.post(PATHS[0], json=body(), headers=AGGRESSIVE) as response:
            assert response.status == 400
            assert (await response.json())["error"]["type"] == kind


async def test_a_session_keeps_approximate_state_apart_and_its_mode_for_life() -> None:
    async with serving(core=skipping()) as served:
        create = {**AGGRESSIVE, "X-ZLRS-Session": "create"}
        async with served.client.post(PATHS[0], json=body(), headers=create) as response:
            secret = response.headers["X-ZLRS-Session"].partition("secret=")[2]
        assert served.core.pins[-1].compute == "aggressive"
        await profile(served, PATHS[0], {"X-ZLRS-Session": secret})
        assert served.core.submitted[-1]["compute"] == "aggressive"
        exact = {"X-ZLRS-Session": secret, "X-ZLRS-Compute": "exact"}
        async with served.client.post(PATHS[0], json=body(), headers=exact) as response:
            assert response.status == 400
            assert (await response.json())["error"]["type"] == "compute_profile_mismatch"


async def test_only_exact_answers_are_stored_in_the_graph() -> None:
    graph = MemoryGraph()
    front = GraphFront(graph, "zlrs:sum", time.time, lambda _: None)
    async with serving(core=skipping(), graph=front) as served:
        await profile(served, PATHS[0], AGGRESSIVE)
        await front.close()
    assert graph.decided == 1
    assert not graph.settled


async def test_verify_compares_exact_answers_with_aggressive_ones_of_the_same_load() -> None:
    async with serving(core=skipping()) as served:
        body = {"prompts": ["One?"], "repeats": 4, "max_tokens": 4}
        async with served.client.post("/verify", json=body) as response:
            report = await response.json()
        assert response.status == 200, report
        asked = [options["compute"] for options in served.core.submitted]
        assert asked.count("exact") == asked.count("aggressive") == 5
        assert report["identical_answers_pct"] == 100
        assert report["token_saving_pct"] is None
        assert "exact and aggressive" in report["notes"][0]
