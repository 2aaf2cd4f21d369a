"""Two machines over one Redis: what one has learned, the other serves."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import time

import pytest

from zlrs.cli.dispatch import main
from zlrs.config import GraphSettings as Section
from zlrs.errors import ConfigurationError
from zlrs.graph import DecisionGraph, GraphSettings, RemoteStore

SERVER = shutil.which("redis-server") or shutil.which("valkey-server")
HEAD = [(b"content-type", b"application/json")]
SETTINGS = GraphSettings(read_deadline_ms=1000, credential_check=False)


def request(text):
    body = {"model": "m", "max_tokens": 9, "temperature": 0, "messages": [{"role": "user", "content": text}]}
    return ("POST", "/v1/messages", "", [(b"x-api-key", b"k")], json.dumps(body).encode(), "upstream")


ANSWER = json.dumps(
    {
        "id": "1", "type": "message", "role": "assistant", "model": "m-1",
        "content": [{"type": "text", "text": "On Monday."}], "stop_reason": "end_turn", "stop_sequence": None,
        "usage": {"input_tokens": 1, "output_tokens": 2},
    }
).encode()  # fmt: skip


def now_ms():
    return time.time_ns() // 1_000_000


@pytest.fixture
def address(tmp_path):
    if SERVER is None:
        pytest.skip("neither redis-server nor valkey-server is installed")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [SERVER, "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--requirepass", "secret"]
    with subprocess.Popen([*command, "--dir", str(tmp_path)], stdout=subprocess.DEVNULL) as server:
        for _ in range(200):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.05)
        yield f"redis://127.0.0.1:{port}/"
        server.kill()


def test_what_one_machine_has_learned_another_serves(address, tmp_path) -> None:
    remote = RemoteStore(addresses=[address], password="secret", deadline_ms=1000)
    assert "secret" not in repr(remote)
    one, two = tmp_path / "one", tmp_path / "two"
    with DecisionGraph(one, SETTINGS, remote) as first:
        assert first.state() == "ready"
        two.mkdir(mode=0o700)
        shutil.copy2(one / "graph.key", two / "graph.key")
        decision = first.decide(*request("When?"), now_ms())
        assert first.settle(decision, 200, HEAD, ANSWER, True, now_ms()) == "stored"
        first.flush()
        with DecisionGraph(two, SETTINGS, remote) as second:
            hit = second.decide(*request("When?"), now_ms() + 5)
            assert hit.kind == "hit"
            assert b"On Monday." in b"".join(hit.replay())
            second.withdraw(hit, now_ms() + 10, "test")
        # Heard from the other machine; how soon is the thread's business.
        for _ in range(200):
            if first.decide(*request("When?"), now_ms() + 20).kind == "miss":
                break
            time.sleep(0.05)
        assert first.decide(*request("When?"), now_ms() + 20).kind == "miss"


def test_a_graph_of_another_key_finds_nothing_there(address, tmp_path) -> None:
    remote = RemoteStore(addresses=[address], password="secret", deadline_ms=1000)
    with (
        DecisionGraph(tmp_path / "one", SETTINGS, remote) as first,
        DecisionGraph(tmp_path / "two", SETTINGS, remote) as second,
    ):
        decision = first.decide(*request("When?"), now_ms())
        first.settle(decision, 200, HEAD, ANSWER, True, now_ms())
        first.flush()
        assert second.decide(*request("When?"), now_ms() + 5).kind == "miss"


def test_the_configuration_names_it_and_its_password_comes_from_the_environment(
    tmp_path, monkeypatch
) -> None:
    section = Section(
        path=str(tmp_path / "graph"), remote=("redis://127.0.0.1:1/",), remote_password_env="A_PASSWORD"
    )
    with pytest.raises(ConfigurationError, match="A_PASSWORD is not set"):
        DecisionGraph.open(section)
    monkeypatch.setenv("A_PASSWORD", "secret")
    with DecisionGraph.open(section) as graph:
        assert graph.state() == "ready", "a server that is not there is no reason to stop"
        assert graph.decide(*request("When?"), now_ms()).kind == "miss"


def test_an_address_that_is_none_bypasses_the_graph_and_says_so(tmp_path) -> None:
    with DecisionGraph(tmp_path / "graph", SETTINGS, RemoteStore(addresses=["nowhere"])) as graph:
        assert graph.state().startswith("bypass: ")
        assert "redis://" in graph.state()


def config_of(tmp_path, address):
    file = tmp_path / "zlrs.toml"
    file.write_text(
        f"""
[graph]
path = "{tmp_path / "one"}"
remote = ["{address}"]
remote_deadline_seconds = 1.0
remote_password_env = "A_PASSWORD"
"""
    )
    return ["--config", str(file)]


def test_a_purge_from_the_command_line_is_one_of_the_remote_store_too(
    address, tmp_path, monkeypatch, capsys
) -> None:
    monkeypatch.setenv("A_PASSWORD", "secret")
    remote = RemoteStore(addresses=[address], password="secret", deadline_ms=1000)
    one, two = tmp_path / "one", tmp_path / "two"
    with DecisionGraph(one, SETTINGS, remote) as first:
        decision = first.decide(*request("When?"), now_ms())
        assert first.settle(decision, 200, HEAD, ANSWER, True, now_ms()) == "stored"
        first.flush()
    two.mkdir(mode=0o700)
    shutil.copy2(one / "graph.key", two / "graph.key")
    assert main(["graph", "purge", "--all", *config_of(tmp_path, address)]) == 0
    assert "2 entries removed" in capsys.readouterr().out
    for folder in (one, two):
        with DecisionGraph(folder, SETTINGS, remote) as graph:
            # A machine that has just started reads the list of purges first thing, in a thread.
            for _ in range(200):
                if graph.decide(*request("When?"), now_ms()).kind == "miss":
                    break
                time.sleep(0.05)
            assert graph.decide(*request("When?"), now_ms()).kind == "miss"


def test_a_purge_that_the_remote_store_does_not_hear_is_an_error(tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.setenv("A_PASSWORD", "secret")
    with DecisionGraph(tmp_path / "one", SETTINGS) as graph:
        decision = graph.decide(*request("When?"), now_ms())
        assert graph.settle(decision, 200, HEAD, ANSWER, True, now_ms()) == "stored"
    assert main(["graph", "purge", "--all", *config_of(tmp_path, "redis://127.0.0.1:1/")]) == 1
    shown = capsys.readouterr()
    assert "2 entries removed" in shown.out
    assert "does not answer" in shown.err
