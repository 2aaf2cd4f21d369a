"""`zlrs proxy` as a process: what it prints, how it ends, and what it says when it cannot start."""

from __future__ import annotations

import asyncio
import json
import logging
import signal
import socket

import aiohttp
import pytest

from support.mock_upstream import Reply, messages_events
from support.running import message
from zlrs_proxy import cli


@pytest.fixture(autouse=True)
def root_logger():
    """The command takes over the root logger, which here is pytest's."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_ends_it_with_0_after_its_streams(upstream, launch_sidecar, number) -> None:
    sidecar = await launch_sidecar("--upstream", upstream.url, "--no-graph")
    events = messages_events("hello there")
    upstream.replies.append(Reply(pieces=events, headers=[("Content-Type", "text/event-stream")], gap_s=0.1))
    async with (
        aiohttp.ClientSession() as session,
        session.post(sidecar.url + "/v1/messages", json=message(stream=True)) as response,
    ):
        ending = asyncio.ensure_future(sidecar.end(number))
        assert await response.read() == b"".join(events)
    code, err = await ending
    assert code == 0, err
    lines = [json.loads(line) for line in err.splitlines()]
    assert [line["event"] for line in lines] == ["listening", "stopped"]


async def test_a_second_signal_does_not_wait(upstream, launch_sidecar) -> None:
    sidecar = await launch_sidecar("--upstream", upstream.url, "--no-graph")
    upstream.replies.append(Reply(pieces=[b"data: x\n\n"], then="hang"))
    async with (
        aiohttp.ClientSession() as session,
        session.post(sidecar.url + "/v1/messages", json=message()),
    ):
        sidecar.process.send_signal(signal.SIGTERM)
        await asyncio.sleep(0.3)
        code, _ = await sidecar.end()
    assert code == -signal.SIGTERM


async def test_no_secret_reaches_the_log(upstream, launch_sidecar) -> None:
    sidecar = await launch_sidecar("--upstream", upstream.url, "--no-graph")
    canary = "sk-canary-9f8e7d6c5b"
    upstream.replies.append(Reply(raw=[b"rubbish " + canary.encode()]))
    headers = {"x-api-key": canary, "authorization": f"Bearer {canary}", "content-type": "application/json"}
    async with aiohttp.ClientSession() as session:
        for path in ("/v1/messages", "/v1/models?key=" + canary, "/zlrs/metrics?" + canary):
            async with session.post(sidecar.url + path, json=message(canary), headers=headers) as response:
                seen = await response.text()
                ours = [v for k, v in response.headers.items() if k.lower().startswith("x-zlrs")]
                assert canary not in str(ours)
                assert response.status == 200 or canary not in seen
    code, err = await sidecar.end()
    assert code == 0
    assert canary not in err


def test_port_taken_says_which_and_what_to_do(capfd, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        code = cli.command(["--upstream", "http://127.0.0.1:9", "--port", str(port), "--no-graph"])
    err = capfd.readouterr().err
    assert code == 1
    assert str(port) in err
    assert "--port" in err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "--upstream"),
        (["--upstream", "ftp://x"], "upstream"),
        (["--upstream", "http://127.0.0.1:9", "--host", "0.0.0.0"], "--keys-file"),
        (["--upstream", "http://127.0.0.1:9", "--admin", "nowhere"], "HOST:PORT"),
        (["--upstream", "http://127.0.0.1:9", "--port", "70000"], "70000"),
        (["--upstream", "http://127.0.0.1:9", "--config", "absent.toml"], "absent.toml"),
        (["--upstream", "http://127.0.0.1:9", "--upstream-key-env", "NO_SUCH_VARIABLE"], "NO_SUCH_VARIABLE"),
    ],
)
def test_what_cannot_be_used_is_said_with_what_to_do(capfd, tmp_path, monkeypatch, arguments, words) -> None:
    monkeypatch.chdir(tmp_path)
    assert cli.command([*arguments, "--no-graph"]) == 2
    assert words in capfd.readouterr().err


def test_configuration_file_is_read(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "zlrs.toml").write_text(
        '[proxy]\nupstream = "https://api.example"\nport = 0\nidle_seconds = 7.5\nallowed_hosts = ["a"]\n'
        '[headers]\nreceipts = "off"\n'
    )
    options = cli._parser().parse_args(["--allowed-host", "b"])
    settings = cli.settings_from(cli.load(file=None, flags=cli._flags(vars(options))).config)
    assert (settings.upstream, settings.idle_seconds, settings.receipts) == (
        "https://api.example",
        7.5,
        False,
    )
    assert settings.allowed_hosts == ("b",)
