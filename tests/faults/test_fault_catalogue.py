"""Every fault of the catalogue: right status, no hang, no wrong answer, no second request, back again."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
import pytest_asyncio

import support.faults_near
import support.faults_upstream  # noqa: F401 - both fill the catalogue
from support.fault_relay import FaultRelay
from support.faults import FAULTS, WHOLE_SECONDS, Fault, World

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

SURVIVED: dict[str, str] = {}


@pytest_asyncio.fixture
async def world(upstream, start_sidecar, launch_sidecar, tmp_path) -> AsyncIterator[World]:
    relay = FaultRelay(upstream.url)
    await relay.start()
    made = World(upstream, relay, start_sidecar, launch_sidecar, tmp_path)
    yield made
    await relay.stop()


@pytest.mark.parametrize("fault", [pytest.param(one, id=f"{one.group}: {one.name}") for one in FAULTS])
async def test_a_fault_is_survived(world: World, fault: Fault) -> None:
    got = await asyncio.wait_for(fault.run(world), 2 * WHOLE_SECONDS)
    assert got == fault.expected
    await asyncio.wait_for(world.settled(), 5)
    assert len(world.upstream.calls) <= fault.calls
    stored = world.graph.stats()["stored"]
    assert stored == 0 or fault.stores, "an answer was kept that is not one"
    assert await asyncio.wait_for(world.recovers(), 10)
    SURVIVED[f"{fault.group}: {fault.name}"] = got


def test_the_table_of_faults(capsys) -> None:
    """Prints what was survived in this run."""
    assert len(FAULTS) >= 30
    assert len({(one.group, one.name) for one in FAULTS}) == len(FAULTS)
    groups = sorted({one.group for one in FAULTS})
    assert groups == ["client", "process", "store", "upstream"]
    with capsys.disabled():
        print(f"\n{'fault':<70} what the client saw")
        for name, got in SURVIVED.items():
            print(f"{name:<70} {got}")
        counts = ", ".join(f"{sum(one.group == group for one in FAULTS)} {group}" for group in groups)
        print(f"{len(SURVIVED)} of {len(FAULTS)} faults survived ({counts})")
