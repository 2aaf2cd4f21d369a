"""`zlrs proxy --workers N`: one address, one store, sums of metrics, and a worker that is killed."""

from __future__ import annotations

import asyncio
import os
import re
import signal
from pathlib import Path

import aiohttp
import pytest

from support.eventually import eventually
from support.running import JSON, message


def children(process: asyncio.subprocess.Process) -> list[int]:
    """Ids of the workers."""
    text = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text(encoding="ascii")
    return [int(one) for one in text.split()]


async def ask(url: str, body: dict) -> tuple[int, str]:
    """Over a connection of its own, so that any worker may get it: status and decision."""
    async with (
        aiohttp.ClientSession(connector=aiohttp.TCPConnector(force_close=True)) as session,
        session.post(url + "/v1/messages", json=body, headers=JSON) as response,
    ):
        await response.read()
        return response.status, response.headers.get("x-zlrs-decision", "").partition(";")[0]


async def metric(url: str, pattern: str) -> float:
    """The sum of a metric's samples."""
    async with aiohttp.ClientSession() as session, session.get(url + "/zlrs/metrics") as response:
        text = await response.text()
    return sum(float(found) for found in re.findall(rf"^{pattern} (\S+)$", text, re.MULTILINE))


async def test_workers_share_address_and_store_and_their_counts_are_summed(
    upstream, launch_sidecar, tmp_path
) -> None:
    sidecar = await launch_sidecar(
        "--upstream", upstream.url, "--workers", "3", "--store", str(tmp_path / "graph")
    )
    pids = children(sidecar.process)
    assert len(pids) == 3
    decisions = [await ask(sidecar.url, message("What is 6 times 7?")) for _ in range(40)]
    assert {status for status, _ in decisions} == {200}
    # Each worker has to see the credential accepted once; from then on all answer from the one store.
    misses = [decision for _, decision in decisions].count("miss")
    assert 1 <= misses <= 6, decisions
    assert len(upstream.calls) == misses

    async def all_counted() -> bool:
        return await metric(sidecar.url, r'zlrs_proxy_requests_total\{endpoint="messages".*\}') == 40

    for _ in range(100):
        if await all_counted():
            break
        await asyncio.sleep(0.1)
    assert await all_counted()
    assert await metric(sidecar.url, "zlrs_proxy_workers") == 3
    code, err = await sidecar.end()
    assert code == 0, err
    assert "worker ended" not in err


async def test_a_killed_worker_is_replaced_and_nothing_waiting_is_lost(
    upstream, launch_sidecar, tmp_path
) -> None:
    sidecar = await launch_sidecar(
        "--upstream", upstream.url, "--workers", "2", "--store", str(tmp_path / "graph")
    )
    for _ in range(10):
        await ask(sidecar.url, message("What is 6 times 7?"))
    before = children(sidecar.process)
    os.kill(before[0], signal.SIGKILL)
    # Also those whose connection waits in the queue of the one that died are answered.
    got = await asyncio.gather(*(ask(sidecar.url, message(f"Question {n}")) for n in range(20)))
    assert {status for status, _ in got} == {200}

    await eventually(lambda: len(children(sidecar.process)) == 2, "two workers")
    assert (await ask(sidecar.url, message("What is 6 times 7?")))[0] == 200
    code, err = await sidecar.end()
    assert code == 0, err
    assert err.count("a worker ended; it is started again") == 1


async def test_workers_end_with_a_supervisor_that_is_killed(upstream, launch_sidecar) -> None:
    sidecar = await launch_sidecar("--upstream", upstream.url, "--workers", "2", "--no-graph")
    pids = children(sidecar.process)
    sidecar.process.kill()
    await sidecar.process.communicate()
    await eventually(lambda: not any(Path(f"/proc/{pid}").exists() for pid in pids), "the workers' end")


async def test_a_bad_setting_ends_all_with_its_message(upstream, launch_sidecar) -> None:
    with pytest.raises(AssertionError, match="/nowhere"):
        await launch_sidecar("--upstream", upstream.url, "--workers", "2", "--keys-file", "/nowhere")
