"""Fixtures that tests in several folders share."""

from __future__ import annotations

from typing import TYPE_CHECKING

import aiohttp
import pytest_asyncio
from support.mock_upstream import MockUpstream
from support.running import Running

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable


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
