"""The JavaScript clients hear the same from an upstream and from the sidecar in front of it."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from support.mock_upstream import HANG, Reply, answer, messages_events
from zlrs.graph import DecisionGraph

pytestmark = [pytest.mark.t2, pytest.mark.timeout(600)]

SCRIPT = Path(__file__).resolve().parents[1] / "support" / "sdk_suites" / "clients.mjs"
PACKAGES = ["@anthropic-ai/sdk", "openai"]
BUSY = b'{"type":"error","error":{"type":"overloaded_error","message":"busy","code":null,"param":null}}'


@pytest.fixture(scope="module")
def folder() -> Path:
    if shutil.which("node") is None or shutil.which("npm") is None:
        pytest.skip("node and npm are not installed")
    root = (
        Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        / "zlrs"
        / "sdk-suites"
        / "javascript"
    )
    if not all((root / "node_modules" / name).is_dir() for name in PACKAGES):
        root.mkdir(parents=True, exist_ok=True)
        command = ["npm", "install", "--silent", "--no-audit", "--no-fund", "--prefix", str(root), *PACKAGES]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
        if done.returncode:
            pytest.skip(f"the JavaScript clients cannot be installed here: {done.stderr.strip()[-200:]}")
    shutil.copy(SCRIPT, root / SCRIPT.name)
    return root


def reply(seen) -> Reply:
    model = json.loads(seen.body)["model"]
    if model == "overloaded":
        return Reply(529, [("request-id", "req_busy"), ("Content-Type", "application/json")], BUSY)
    if model == "endless":
        return Reply(
            pieces=messages_events("hello there")[:3],
            headers=[("Content-Type", "text/event-stream")],
            then=HANG,
        )
    return answer(seen)


async def heard(folder: Path, url: str) -> list:
    process = await asyncio.create_subprocess_exec(
        "node", SCRIPT.name, url, cwd=folder, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    out, err = await asyncio.wait_for(process.communicate(), 120)
    assert process.returncode == 0, err.decode()
    return [json.loads(line) for line in out.splitlines()]


async def test_javascript_clients_hear_the_same(start_sidecar, upstream, folder) -> None:
    upstream.default = reply
    sidecar = await start_sidecar(graph=DecisionGraph(None))
    direct = await heard(folder, upstream.url)
    sent, upstream.calls = upstream.calls, []
    between = await heard(folder, sidecar.url)
    assert [name for name, _ in direct] == [
        "message", "message stream", "message with tools", "message helper", "completion",
        "completion stream", "message error", "completion error", "left",
    ]  # fmt: skip
    assert between == direct
    assert [(call.method, call.path, call.body) for call in upstream.calls] == [
        (call.method, call.path, call.body) for call in sent
    ]
    await asyncio.wait_for(upstream.calls[-1].gone.wait(), 2)
