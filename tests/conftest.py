"""Fixtures that tests in several folders share."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

import aiohttp
import pytest
import pytest_asyncio

from support.mock_upstream import MockUpstream
from support.running import Running
from support.sidecar_process import Process, clean_up, launch

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable
    from pathlib import Path


@pytest.fixture(autouse=True)
def interruptible() -> None:
    """A shell that runs the tests in its background hands them an ignored SIGINT; tests of Ctrl-C need it."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest_asyncio.fixture
async def upstream() -> AsyncIterator[MockUpstream]:
    """A scripted upstream on a free port."""
    mock = MockUpstream()
    await mock.start()
    yield mock
    await mock.stop()


@pytest_asyncio.fixture
async def start_sidecar(upstream: MockUpstream) -> AsyncIterator[Callable[..., Awaitable[Running]]]:
    """Starts sidecars in front of the scripted upstream: `await start_sidecar(graph=…, **settings)`."""
    from zlrs_proxy.settings import Settings
    from zlrs_proxy.sidecar import Sidecar

    running: list[Running] = []

    async def start(*, graph=None, opener=None, clock=None, **settings) -> Running:
        settings.setdefault("upstream", upstream.url)
        settings.setdefault("port", 0)
        settings.setdefault("decide_seconds", 10)  # a busy machine must not make misses of hits
        open_graph = opener or (None if graph is None else (lambda: graph))
        sidecar = Sidecar(Settings(**settings), open_graph, clock)
        await sidecar.start()
        session = aiohttp.ClientSession(
            auto_decompress=False,
            cookie_jar=aiohttp.DummyCookieJar(),
            connector=aiohttp.TCPConnector(limit=0),
            timeout=aiohttp.ClientTimeout(total=30),
        )
        running.append(Running(sidecar, session))
        return running[-1]

    yield start
    for one in running:
        await one.session.close()
        await one.sidecar.stop(0)


@pytest_asyncio.fixture
async def launch_sidecar(tmp_path: Path) -> AsyncIterator[Callable[..., Awaitable[Process]]]:
    """Starts sidecars as processes: `await launch_sidecar("--upstream", url)`."""
    started: list[Process] = []

    async def run(*arguments: str) -> Process:
        started.append(await launch(tmp_path, *arguments))
        return started[-1]

    yield run
    for one in started:
        await clean_up(one.process)
