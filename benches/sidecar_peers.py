"""Other gateways beside the sidecar: installed into the cache first, left out where that fails."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
import urllib.error
import urllib.request
from typing import TYPE_CHECKING

from report import Figure, versus
from sidecar_setup import CACHE, Bench, free_port

if TYPE_CHECKING:
    from collections.abc import Callable

    from sidecar_setup import Samples


def peers(bench: Bench, addresses: dict[str, str], seconds: int) -> list[Figure]:
    """Other gateways, each beside the sidecar in the same windows."""
    return [
        beside(bench, addresses, seconds, "LiteLLM", litellm, ">= 40 x"),
        beside(bench, addresses, seconds, "Portkey", portkey, ">= 6 x"),
    ]


def beside(
    bench: Bench,
    addresses: dict[str, str],
    seconds: int,
    name: str,
    start: Callable[[Bench], str],
    target: str,
) -> Figure:
    """One gateway and the sidecar in turn; a figure that says why where it cannot be measured."""
    try:
        arms = [(name, start(bench), bench.sampled), ("pass", addresses["sidecar"], bench.sampled)]
        drive = portkey_turns if name == "Portkey" else Bench.turns_of_eight
        found = drive(bench, arms, seconds)
    except (OSError, RuntimeError, subprocess.SubprocessError) as error:
        return Figure(name, "", 0, note=f"not measured: {error}")
    mine, theirs = found["pass"]["rate"], found[name]["rate"]
    if not theirs:
        return Figure(name, "", 0, note="not measured: it answered no call with 200")
    return versus(f"pass-through beside {name}", "calls/s", mine, name, theirs, target)


def portkey_turns(bench: Bench, arms: list[tuple[str, str, str]], seconds: int) -> Samples:
    """Portkey takes its upstream from headers, which the load adds for it."""
    extra = f"x-portkey-provider: openai\r\nx-portkey-custom-host: http://{bench.upstream}/v1\r\n"
    os.environ["BENCH_EXTRA_HEADERS"] = extra
    try:
        return bench.turns_of_eight(arms, seconds)
    finally:
        del os.environ["BENCH_EXTRA_HEADERS"]


def litellm(bench: Bench) -> str:
    """Start LiteLLM's proxy; its address."""
    home = CACHE / "litellm"
    if not (home / "bin" / "litellm").exists():
        subprocess.run([sys.executable, "-m", "venv", home], check=True)
        subprocess.run([home / "bin" / "pip", "install", "-q", "litellm[proxy]"], check=True, timeout=900)
    config = bench.folder / "litellm.yaml"
    config.write_text(
        "model_list:\n- model_name: mock\n  litellm_params:\n    model: openai/mock\n"
        f"    api_base: http://{bench.upstream}/v1\n    api_key: sk-bench\n"
        "litellm_settings:\n  telemetry: false\n"
        "general_settings:\n  dangerously_permit_weak_or_unset_master_key: true\n",
        encoding="utf-8",
    )
    port = free_port()
    command = [
        str(home / "bin" / "litellm"),
        "--config",
        str(config),
        "--host",
        "127.0.0.1",
        "--port",
        str(port),
    ]
    environment = {**os.environ, "LITELLM_LOG": "ERROR", "LITELLM_LOCAL_MODEL_COST_MAP": "True"}
    output = subprocess.DEVNULL
    bench.spawn(command, bench.core, stdout=output, stderr=output, env=environment, cwd=bench.folder)
    return ready(port, "LiteLLM")


def portkey(bench: Bench) -> str:
    """Start Portkey's gateway; its address."""
    home = CACHE / "npm"
    script = home / "node_modules" / "@portkey-ai" / "gateway" / "build" / "start-server.js"
    if not script.exists():
        home.mkdir(parents=True, exist_ok=True)
        npm = shutil.which("npm") or "npm"
        install = [npm, "install", "--no-audit", "--no-fund", "--silent", "@portkey-ai/gateway"]
        subprocess.run(install, cwd=home, check=True, timeout=600)
    port = free_port()
    command = ["node", str(script), f"--port={port}", "--headless"]
    output = subprocess.DEVNULL
    bench.spawn(
        command, bench.core, stdout=output, stderr=output, env={**os.environ, "NODE_ENV": "production"}
    )
    return ready(port, "Portkey")


def answers(port: int) -> bool:
    """Whether a server answers, whatever it says."""
    try:
        urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=2).close()
    except urllib.error.HTTPError:
        return True
    except OSError:
        return False
    return True


def ready(port: int, name: str) -> str:
    """Wait until a server answers anything."""
    until = time.monotonic() + 90
    while time.monotonic() < until:
        if answers(port):
            return f"127.0.0.1:{port}"
        time.sleep(0.3)
    raise RuntimeError(f"{name} did not answer within 90 s")
