"""A server over the fake engine, on a free loopback port, inside the test's event loop."""

from __future__ import annotations

import time
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import aiohttp
from aiohttp import web

from support.fake_engine import FakeEngine, Script
from zlrs.config import Config, GraphSettings, HeaderSettings, RingSettings, ServerSettings, SessionSettings
from zlrs.engine import Engine
from zlrs.server.access import Keys
from zlrs.server.app import create_app
from zlrs.server.connections import HEAD_SECONDS, listen
from zlrs.server.context import ServerContext
from zlrs.server.lifecycle import bind, open_state_files
from zlrs.server.receipts import ModelFacts

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from zlrs.server.graph_front import GraphFront

MODEL = "fake-model"


@dataclass
class Served:
    """A running server with everything behind it."""

    url: str
    core: FakeEngine
    context: ServerContext
    client: aiohttp.ClientSession

    @property
    def script(self) -> Script:
        return self.core.script


@asynccontextmanager
async def serving(
    script: Script | None = None,
    *,
    server: ServerSettings | None = None,
    headers: HeaderSettings | None = None,
    keys: tuple[str, ...] = (),
    context_tokens: int = 2048,
    loaded: bool = True,
    graph: GraphFront | None = None,
    session: SessionSettings | None = None,
    ring: RingSettings | None = None,
    clock: Callable[[], float] = time.monotonic,
    core: FakeEngine | None = None,
    head_seconds: float = HEAD_SECONDS,
) -> AsyncIterator[Served]:
    """Serve the fake engine until the block ends; the model is called `fake-model`."""
    core = core or FakeEngine(script, context_tokens=context_tokens)
    engine = Engine(core, name=MODEL)
    config = Config(
        server=server or ServerSettings(),
        headers=headers or HeaderSettings(),
        graph=GraphSettings(),
        session=session or SessionSettings(),
        ring=ring or RingSettings(),
    )
    context = ServerContext(config, Keys(keys), monotonic=clock, graph=graph)
    open_state_files(context)
    if loaded:
        context.engine_loaded(engine, ModelFacts.of_engine(engine))
    runner = web.AppRunner(create_app(context), handler_cancellation=True, shutdown_timeout=1)
    await runner.setup()
    listener = bind("127.0.0.1", 0)
    host, port = listener.getsockname()
    listening = await listen(runner, listener, head_seconds=head_seconds)
    try:
        async with aiohttp.ClientSession(base_url=f"http://{host}:{port}") as client:
            yield Served(f"http://{host}:{port}", core, context, client)
    finally:
        core.script.go.set()
        listening.close()
        await runner.cleanup()
        engine.close()
