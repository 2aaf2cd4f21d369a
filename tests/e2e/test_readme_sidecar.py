"""The README moves an existing app behind the sidecar in three lines; here they are run."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import socket
import sys
from pathlib import Path

import pytest

README = Path(__file__).resolve().parents[2] / "README.md"

APPS = {
    "anthropic": (
        "https://api.anthropic.com",
        "ANTHROPIC_BASE_URL",
        (
            "import anthropic\n"
            "said = anthropic.Anthropic(api_key='k').messages.create(model='m', max_tokens=64,\n"
            "    messages=[{'role': 'user', 'content': 'Where is order 1042?'}])\n"
            "print(said.content[0].text, said.usage.output_tokens)\n"
        ),
    ),
    "openai": (
        "https://api.openai.com",
        "OPENAI_BASE_URL",
        (
            "import openai\n"
            "said = openai.OpenAI(api_key='k').chat.completions.create(model='m',\n"
            "    messages=[{'role': 'user', 'content': 'Where is order 1042?'}])\n"
            "print(said.choices[0].message.content, said.usage.total_tokens)\n"
        ),
    ),
}


def three_lines() -> list[str]:
    block = re.search(r"\*\*As a sidecar\*\*.*?```sh\n(.*?)```", README.read_text(), re.DOTALL)
    assert block is not None
    lines = block[1].splitlines()
    assert len(lines) == 3
    return lines


async def shell(command: str, folder: Path, **environment: str) -> asyncio.subprocess.Process:
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    return await asyncio.create_subprocess_shell(
        command,
        cwd=folder,
        env={"PATH": path, "HOME": str(folder), **environment},
        stdout=asyncio.subprocess.PIPE,
        start_new_session=True,
    )


@pytest.mark.parametrize("library", sorted(APPS))
async def test_an_app_says_the_same_behind_the_sidecar(upstream, tmp_path, library) -> None:
    vendor, variable, program = APPS[library]
    install, start, run = three_lines()
    assert install.startswith("pip install ")
    (tmp_path / "your_app.py").write_text(program)
    suffix = "/v1" if library == "openai" else ""
    direct = await shell("python your_app.py", tmp_path, **{variable: upstream.url + suffix})
    said, _ = await direct.communicate()
    assert said.startswith(b"You asked: Where is order 1042?")

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    # The lines as they stand, but for the vendor's address and the port, which others may use here.
    start = start.replace("https://api.anthropic.com", vendor).replace(vendor, upstream.url)
    assert start.endswith(" &")
    run = run.replace("ANTHROPIC_BASE_URL", variable).replace("8090", port + suffix)
    sidecar = await shell(f"exec {start.removesuffix(' &')} --port {port}", tmp_path)
    try:
        assert sidecar.stdout is not None
        told = await asyncio.wait_for(sidecar.stdout.readline(), 20)
        assert f":{port} -> {upstream.url}".encode() in told
        behind = await shell(run, tmp_path)
        assert (await behind.communicate())[0] == said
    finally:
        sidecar.send_signal(signal.SIGTERM)
        await sidecar.communicate()
    one, two = upstream.calls
    assert one.body == two.body
    assert one.path == two.path
    assert two.header("via") == ["1.1 zlrs"]
