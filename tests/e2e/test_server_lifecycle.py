"""`zlrs serve` as a process: starting, refusing to start, draining, ending."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from typing import TYPE_CHECKING

import pytest

from support.events import parse_events
from support.real_model import small_model
from support.serve_process import serve_process, wait_for_metrics

if TYPE_CHECKING:
    from pathlib import Path


def zlrs(*arguments: str, folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "zlrs", *arguments],
        capture_output=True,
        text=True,
        cwd=folder,
        env={**os.environ, "XDG_CONFIG_HOME": str(folder / "xdg"), "NO_COLOR": "1", **environment},
        timeout=50,
        check=False,
    )


def test_a_taken_port_is_named_before_anything_is_loaded(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        done = zlrs("serve", "no-such-model", "--port", str(port), folder=tmp_path)
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr.startswith(f"error: port {port} on 127.0.0.1 is taken by another program\nhint: ")
    assert "--port N" in done.stderr


def test_an_unknown_model_names_the_nearest(tmp_path: Path) -> None:
    done = zlrs("serve", "smollm2-135m-instruct-q4", "--port", "0", folder=tmp_path)
    assert done.returncode == 1
    assert "unknown model 'smollm2-135m-instruct-q4'" in done.stderr
    assert "Did you mean 'smollm2-135m-instruct-q4_1'?" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_file_that_is_no_model(tmp_path: Path) -> None:
    (tmp_path / "bad.gguf").write_bytes(b"this is no model" * 10)
    done = zlrs("serve", "./bad.gguf", "--port", "0", folder=tmp_path)
    assert done.returncode == 1
    assert "error: " in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("host", ["0.0.0.0", "::"])
def test_a_network_address_needs_keys(tmp_path: Path, host: str) -> None:
    done = zlrs("serve", "x", "--host", host, "--port", "0", folder=tmp_path)
    assert done.returncode == 1
    assert "no keys are set" in done.stderr
    assert "--keys-file" in done.stderr


def test_no_model_named(tmp_path: Path) -> None:
    done = zlrs("serve", folder=tmp_path)
    assert done.returncode == 1
    assert "no model is named" in done.stderr


def test_the_end_does_not_wait_for_a_load(tmp_path: Path) -> None:
    program = (
        "import asyncio, threading\n"
        "from zlrs.config import Config, ServerSettings\n"
        "from zlrs.server import serve\n"
        "def load(progress):\n"
        "    print('loading', flush=True)\n"
        "    threading.Event().wait()\n"
        "asyncio.run(serve(Config(server=ServerSettings(port=0)), load))\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", program],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "loading\n"
    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate(timeout=30)
    assert process.returncode == 0, errors
    assert [json.loads(line)["event"] for line in errors.splitlines()] == [
        "stopping",
        "stopped_while_loading",
    ]


@pytest.mark.t1
def test_a_second_signal_ends_at_once() -> None:
    path = small_model()
    body = {"model": path.stem, "max_tokens": 4000, "stream": True, "temperature": 0,
            "messages": [{"role": "user", "content": "Count to one thousand in words."}]}  # fmt: skip
    with serve_process(str(path), exit_code=128 + signal.SIGINT) as serving:
        request = urllib.request.Request(
            f"{serving.url}/v1/messages", json.dumps(body).encode(), {"content-type": "application/json"}
        )
        with urllib.request.urlopen(request) as response:
            assert response.readline()
            serving.process.send_signal(signal.SIGINT)
            while "stopping" not in serving.errors.read_text():
                assert response.readline()
            serving.process.send_signal(signal.SIGINT)
            serving.process.wait(30)


@pytest.mark.t1
def test_a_client_that_goes_away_frees_the_engine() -> None:
    path = small_model()
    body = {"model": path.stem, "max_tokens": 8000, "stream": True, "temperature": 0,
            "messages": [{"role": "user", "content": "Count to one thousand in words."}]}  # fmt: skip
    with serve_process(str(path)) as serving:
        request = urllib.request.Request(
            f"{serving.url}/v1/messages", json.dumps(body).encode(), {"content-type": "application/json"}
        )
        with urllib.request.urlopen(request) as response:
            while b"text_delta" not in response.readline():
                pass
        wait_for_metrics(
            serving, "zlrs_engine_cancelled 1", "zlrs_engine_running 0", "zlrs_requests_in_flight 0"
        )


@pytest.mark.t1
def test_one_line_on_standard_output_and_a_clean_end() -> None:
    with (
        serve_process(str(small_model())) as serving,
        urllib.request.urlopen(f"{serving.url}/readyz") as response,
    ):
        assert json.load(response) == {"status": "ready"}
    assert serving.process.returncode == 0


@pytest.mark.t1
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_running_stream_is_finished_before_the_end(number: signal.Signals) -> None:
    path = small_model()
    with serve_process(str(path)) as serving:
        body = {"model": path.stem, "max_tokens": 60, "stream": True, "temperature": 0,
                "messages": [{"role": "user", "content": "Count from one to fifty."}]}  # fmt: skip
        request = urllib.request.Request(
            f"{serving.url}/v1/messages", json.dumps(body).encode(), {"content-type": "application/json"}
        )
        with urllib.request.urlopen(request) as response:
            first = response.readline()
            serving.process.send_signal(number)
            events = parse_events((first + response.read()).decode())
        assert events[-1].name == "message_stop"
        assert serving.process.wait(30) == 0


@pytest.mark.t1
def test_what_does_not_finish_in_time_ends_with_an_error_event() -> None:
    path = small_model()
    with serve_process(str(path), "--drain-seconds", "0") as serving:
        body = {"model": path.stem, "max_tokens": 4000, "stream": True, "temperature": 0,
                "messages": [{"role": "user", "content": "Count to one thousand in words."}]}  # fmt: skip
        request = urllib.request.Request(
            f"{serving.url}/v1/messages", json.dumps(body).encode(), {"content-type": "application/json"}
        )
        with urllib.request.urlopen(request) as response:
            first = response.readline()
            serving.process.send_signal(signal.SIGTERM)
            events = parse_events((first + response.read()).decode())
        assert events[-1].name == "error"
        assert serving.process.wait(30) == 0
        logged = [
            json.loads(line) for line in serving.errors.read_text().splitlines() if line.startswith("{")
        ]
        assert [line["event"] for line in logged] == ["stopping", "answers_cut", "stream_failed"]


@pytest.mark.t1
def test_settings_come_from_the_file_and_keys_are_asked_for(tmp_path: Path) -> None:
    keys = tmp_path / "keys"
    keys.write_text("a-key-of-sixteen-characters\n", encoding="utf-8")
    config = tmp_path / "settings.toml"
    config.write_text(
        f"[engine]\nmodel = '{small_model()}'\ncontext_tokens = 256\n[server]\nkeys_file = '{keys}'\n",
        encoding="utf-8",
    )
    with serve_process(environment={"ZLRS_CONFIG": str(config)}) as serving:
        with pytest.raises(urllib.error.HTTPError) as caught:
            urllib.request.urlopen(f"{serving.url}/v1/models")
        assert caught.value.code == 401
        caught.value.close()
        request = urllib.request.Request(
            f"{serving.url}/v1/models", headers={"x-api-key": "a-key-of-sixteen-characters"}
        )
        with urllib.request.urlopen(request) as response:
            assert json.load(response)["data"][0]["max_tokens"] == 256
