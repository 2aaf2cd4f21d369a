"""A server's life: bind, load, answer, drain, end."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import signal
import socket
from typing import TYPE_CHECKING

from aiohttp import web

from zlrs.config import ConfigError
from zlrs.errors import ZlrsError
from zlrs.server.access import Keys, Tenants, require_safe_address
from zlrs.server.app import create_app
from zlrs.server.connections import BACKLOG, listen
from zlrs.server.context import ServerContext, State
from zlrs.server.errors import overloaded
from zlrs.server.graph_front import GraphFront
from zlrs.server.log import log
from zlrs.server.preheat import warm_up
from zlrs.server.receipts import ModelFacts
from zlrs.server.sessions import Life
from zlrs.server.state_files import StateFiles
from zlrs.server.validation import load_head
from zlrs.server.variants import load_variants, trace_layers

if TYPE_CHECKING:
    from collections.abc import Callable

    from zlrs.config import Config
    from zlrs.engine import Engine
    from zlrs.graph import Graph

    Load = Callable[[Callable[[int, int], None]], Engine]
    OpenGraph = Callable[[], Graph]
    LoadMasked = Callable[[str], Engine]

SWEEP_SECONDS = 1.0
"""How exactly sessions end."""

SWEEP_FILES_EVERY = 60
"""Rounds between two looks at the folder of saved sessions."""

CLOSE_SECONDS = 5.0
"""Time connections get to send what is written after the last answer ended."""


def bind(host: str, port: int) -> socket.socket:
    """Listen on an address; done before the long load, so that a taken port is known at once.

    Raises:
        ConfigError: The port is taken or the address is not of this machine.
    """
    try:
        found = socket.getaddrinfo(host.strip("[]"), port, type=socket.SOCK_STREAM)
    except OSError as error:
        raise ConfigError(f"{host!r} is no address here: {error}", "Check `--host`") from error
    family, kind, protocol, _, address = found[0]
    listener = socket.socket(family, kind, protocol)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(BACKLOG)
    except OSError as error:
        listener.close()
        if error.errno == errno.EADDRINUSE:
            raise ConfigError(
                f"port {port} on {host} is taken by another program",
                "Give another: `--port N`, or `server.port` in zlrs.toml; `--port 0` takes a free one",
            ) from error
        if error.errno == errno.EACCES:
            raise ConfigError(
                f"port {port} may not be used by this user", "Give a port from 1024 up with `--port N`"
            ) from error
        raise ConfigError(f"cannot listen on {host}:{port}: {error.strerror}", "Check `--host`") from error
    listener.setblocking(False)
    return listener


def address_of(listener: socket.socket) -> str:
    """`http://HOST:PORT` as really bound."""
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


async def serve(
    config: Config,
    load: Load,
    *,
    open_graph: OpenGraph | None = None,
    load_masked: LoadMasked | None = None,
    announce: Callable[[str], None] | None = None,
) -> None:
    """Run until SIGTERM or SIGINT.

    Args:
        config: All settings.
        load: Loads the engine; called in a thread with a function of (bytes done, bytes in all).
        open_graph: Opens the decision graph to put in front of the engine.
        load_masked: Loads the engine once more, with a mask file of `[[zero_layer.masks]]`.
        announce: Told the address once requests are answered.

    Raises:
        ConfigError: The address cannot be used.
    """
    keys = Keys.from_file(config.server.keys_file)
    require_safe_address(config.server.host, keys)
    listener = bind(config.server.host, config.server.port)
    context = ServerContext(config, keys)
    open_state_files(context)
    runner = web.AppRunner(create_app(context), handler_cancellation=True, shutdown_timeout=CLOSE_SECONDS)
    stop = _watch_signals()
    await runner.setup()
    loading = asyncio.ensure_future(_load(context, load, open_graph, load_masked))
    sweeping = asyncio.ensure_future(sweep_sessions(context))
    try:
        listening = await listen(runner, listener)
        stopping = asyncio.ensure_future(stop.wait())
        await asyncio.wait({loading, stopping}, return_when=asyncio.FIRST_COMPLETED)
        if loading.done():
            loading.result()
            if announce is not None:
                announce(address_of(listener))
            await stopping
        else:
            stopping.cancel()
        await drain(context, listening)
    finally:
        sweeping.cancel()
        await runner.cleanup()
        if stop.is_set() and not loading.done():
            # A load cannot be interrupted, and nothing is lost with it.
            log("stopped_while_loading")
            os._exit(0)
        await close(context)


async def _load(
    context: ServerContext, load: Load, open_graph: OpenGraph | None, load_masked: LoadMasked | None
) -> None:
    def progress(done_bytes: int, total_bytes: int) -> None:
        context.loading_share = done_bytes / max(1, total_bytes)

    try:
        engine = await asyncio.to_thread(load, progress)
        # In a thread too: the first look at the facts sums the file.
        facts = await asyncio.to_thread(ModelFacts.of_engine, engine)
        if context.config.server.log_level == "debug":
            trace_layers(engine, facts.mask_sum)
        if load_masked is not None and context.config.zero_layer.masks:
            context.variants = await asyncio.to_thread(load_variants, context.config, load_masked)
        if open_graph is not None:
            from zlrs.graph import follow_load

            graph = await asyncio.to_thread(open_graph)
            admission = context.admission
            follow_load(graph, lambda: admission.in_flight / admission.limit)
            settled = context.metrics.settled

            def report(result: str) -> None:
                settled.add(result=result)

            context.graph = GraphFront(graph, f"zlrs:{facts.identity}", context.wall, report)
            if (state := graph.state()) != "ready":
                log("graph_out_of_service", state=state)
        if context.config.ring.head is not None:
            await load_head(context, context.config.ring.head, facts.file_sha256)
        await warm_up(engine, context.config.server.warmup)
    except BaseException:
        context.state = State.FAILED
        raise
    context.engine_loaded(engine, facts)


def _watch_signals() -> asyncio.Event:
    """Set at the first SIGTERM or SIGINT; a second one ends the process at once."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()

    def received(number: signal.Signals) -> None:
        if stop.is_set():
            # The user has lost patience: no clean-up.
            os._exit(128 + number)
        log("stopping", signal=number.name)
        stop.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, received, number)
    return stop


async def drain(context: ServerContext, listening: asyncio.Server | None) -> None:
    """Take nothing new, let running answers finish, tell the rest.

    `/readyz` says no first. Answers that are not done within `server.drain_seconds` end with an error in
    their protocol.
    """
    context.state = State.DRAINING
    for session in context.sessions.all():
        # Nobody waits for what is computed ahead.
        if session.draft is not None:
            session.draft.cancel()
    if listening is not None:
        listening.close()
    with contextlib.suppress(asyncio.TimeoutError):
        await asyncio.wait_for(context.admission.idle.wait(), context.config.server.drain_seconds)
    cut = list(context.streams)
    for stream in cut:
        stream.fail(
            overloaded(
                "the server is shutting down and this answer was not finished in time",
                retry_after_seconds=1,
                suggestion="Send the request again",
            )
        )
    if cut:
        log("answers_cut", count=len(cut))


def open_state_files(context: ServerContext) -> None:
    """Open the folder of saved sessions, where one is set.

    Raises:
        ConfigError: The folder or its key cannot be used.
    """
    if context.config.session.path is None:
        return
    files = StateFiles(context.config.session, context.wall)
    context.state_files = files
    # Whose a session is must still be known after a restart, and to a replica.
    context.tenants = Tenants(files.derived("tenants"))


async def sweep_sessions(context: ServerContext) -> None:
    """End sessions when their time is over, until cancelled."""
    rounds = 0
    while True:
        for session in context.sessions.sweep():
            log("session_over", session=session.id)
        if context.state_files is not None and rounds % SWEEP_FILES_EVERY == 0:
            await asyncio.to_thread(context.state_files.sweep)
        rounds += 1
        await asyncio.sleep(SWEEP_SECONDS)


async def save_sessions(context: ServerContext) -> None:
    """Write every open session, so that the next process with this folder goes on with it."""
    files = context.state_files
    if files is None or context.loaded_engine is None:
        return
    saved = 0
    for session in context.sessions.all():
        if session.draft is not None:
            await session.draft.stop()
        if session.life is Life.OPEN:
            try:
                await asyncio.to_thread(files.save, session)
            except ZlrsError as error:
                log("session_not_saved", session=session.id, error=error.message)
            else:
                saved += 1
    if saved:
        log("sessions_saved", count=saved)


async def close(context: ServerContext) -> None:
    """Save sessions, store what the graph still holds, free the engine."""
    await context.fills.close()
    await context.reruns.close()
    await save_sessions(context)
    if context.graph is not None:
        await context.graph.close()
    for variant in context.variants:
        await asyncio.to_thread(variant.engine.close)
    engine = context.loaded_engine
    if engine is not None:
        await asyncio.to_thread(engine.close)
