"""The sidecar as a process of its own, which can be signalled and killed."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

PROGRAM = "import sys; from zlrs_proxy.cli import main; sys.exit(main())"


class Process:
    """A started sidecar whose address is known."""

    def __init__(self, process: asyncio.subprocess.Process, url: str) -> None:
        self.process = process
        self.url = url

    async def end(self, number: int = signal.SIGTERM) -> tuple[int | None, str]:
        """Send a signal; exit code and everything on stderr."""
        self.process.send_signal(number)
        _, err = await asyncio.wait_for(self.process.communicate(), 15)
        return self.process.returncode, err.decode()


async def launch(folder: Path, *arguments: str) -> Process:
    """Start one on a free port, with everything it keeps under `folder`."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", PROGRAM, "--port", "0", *arguments,
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE, cwd=folder,
        env={**os.environ, "HOME": str(folder), "XDG_DATA_HOME": str(folder / "data")},
    )  # fmt: skip
    assert process.stdout is not None
    line = (await asyncio.wait_for(process.stdout.readline(), 20)).decode()
    if not line.startswith("zlrs proxy: http://127.0.0.1:"):
        _, err = await process.communicate()
        raise AssertionError(line + err.decode())
    return Process(process, line.split()[2])


async def clean_up(process: asyncio.subprocess.Process) -> None:
    """Leave nothing running and nothing open."""
    if process.returncode is None:
        process.kill()
        await process.communicate()
    process._transport.close()  # type: ignore[attr-defined]
