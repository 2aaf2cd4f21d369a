"""`zlrs serve` as a process of its own, as users start it."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
import urllib.request
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

ANNOUNCEMENT = "zlrs serve: "
END_SECONDS = 30
METRIC_SECONDS = 20


class Serving(NamedTuple):
    """A running server: its address, its process, and where its standard error goes."""

    url: str
    process: subprocess.Popen[str]
    errors: Path


@contextmanager
def serve_process(
    *arguments: str, environment: dict[str, str] | None = None, exit_code: int = 0
) -> Iterator[Serving]:
    """Start on a free port, wait for the line on stdout, end with SIGTERM and compare the exit code."""
    with tempfile.TemporaryDirectory() as folder:
        errors = Path(folder) / "stderr"
        clean = {name: value for name, value in os.environ.items() if not name.startswith("ZLRS_SERVER_")}
        command = [sys.executable, "-m", "zlrs", "serve", "--port", "0", *arguments]
        with errors.open("w") as sink:
            process = subprocess.Popen(
                command,
                stdout=subprocess.PIPE,
                stderr=sink,
                text=True,
                cwd=folder,
                env={**clean, **(environment or {})},
            )
        assert process.stdout is not None
        try:
            line = process.stdout.readline()
            assert line.startswith(ANNOUNCEMENT), errors.read_text()
            yield Serving(line.removeprefix(ANNOUNCEMENT).strip(), process, errors)
            if process.poll() is None:
                process.terminate()
            assert process.wait(END_SECONDS) == exit_code, errors.read_text()
        finally:
            if process.poll() is None:
                process.kill()
            process.wait()
            process.stdout.close()


def wait_for_metrics(serving: Serving, *wanted: str) -> None:
    """Wait until the metrics page has all these lines."""
    end = time.monotonic() + METRIC_SECONDS
    missing = set(wanted)
    while time.monotonic() < end:
        with urllib.request.urlopen(f"{serving.url}/metrics") as response:
            missing = set(wanted) - set(response.read().decode().splitlines())
        if not missing:
            return
        time.sleep(0.02)
    raise AssertionError(f"{sorted(missing)} did not come")
