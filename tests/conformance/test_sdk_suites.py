"""The client libraries' own tests pass against a mock, and the same ones with the sidecar between."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

from support.sdk_suites.mock import TypedApi
from support.sdk_suites.suite import NotHereError, Suite, suite_of
from zlrs.graph import DecisionGraph

pytestmark = [pytest.mark.t2, pytest.mark.timeout(2400)]

TESTS = ["tests/api_resources"]


@pytest.fixture(scope="module", params=["anthropic", "openai"])
def suite(request) -> Suite:
    try:
        return suite_of(request.param)
    except NotHereError as error:
        pytest.skip(f"the tests of {request.param} cannot be installed here: {error}")


async def test_the_same_tests_pass_with_the_sidecar_between(suite, start_sidecar, tmp_path, capsys) -> None:
    found = {}
    for arm in ("direct", "sidecar"):
        api = TypedApi(tmp_path)
        await api.start()
        url = api.url
        if arm == "sidecar":
            running = await start_sidecar(upstream=api.url, graph=DecisionGraph(None))
            url = running.url
        outcomes = await asyncio.to_thread(suite.run, url, tmp_path, TESTS)
        await api.stop()
        found[arm] = outcomes, api.seen
    (direct, sent), (between, arrived) = found["direct"], found["sidecar"]
    counts = Counter(direct.values())
    with capsys.disabled():
        calls = sum(map(len, arrived.values()))
        print(f"\n{suite.library}: {len(direct)} tests, {dict(counts)}, {calls} calls through the sidecar")
    assert counts["passed"] > 1000
    assert set(counts) <= {"passed", "skipped", "setup skipped"}, counts
    differing = {
        name: (direct.get(name), between.get(name))
        for name in direct | between
        if direct.get(name) != between.get(name)
    }
    assert differing == {}
    # What the upstream got is the same too, request by request.
    assert {test: sent[test] for test in sent if sent[test] != arrived.get(test)} == {}
    assert set(arrived) == set(sent)
