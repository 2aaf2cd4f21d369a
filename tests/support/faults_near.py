"""Faults of clients, of the store, and of the process itself."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import signal

from support.eventually import eventually
from support.fault_relay import reset
from support.faults import EVENTS, SSE, World, fault
from support.memory_graph import MemoryGraph
from support.mock_upstream import HANG, Reply, messages_reply
from support.running import message, post_head, raw_connection, raw_exchange
from zlrs_proxy.settings import Settings, SettingsError

CLIENT, STORE, PROCESS = "client", "store", "process"
WHOLE = json.dumps(message("Where is order 1042?", stream=True)).encode()


def status_of(answer: bytes) -> str:
    return answer[9:12].decode() if answer.startswith(b"HTTP/1.") else "gone"


@fault(CLIENT, "hangs up in its head", "closed", calls=0)
async def in_head(world: World) -> str:
    sidecar = await world.up()
    async with raw_connection(sidecar.port) as (_, writer):
        writer.write(b"POST /v1/messages HTTP/1.1\r\nHost: local")
        await writer.drain()
        reset(writer)
    await world.settled()
    return "closed"


@fault(CLIENT, "sends no end of its head", "closed", calls=0)
async def slow_head(world: World) -> str:
    sidecar = await world.up()
    async with raw_connection(sidecar.port) as (reader, writer):
        writer.write(b"POST /v1/messages HTTP/1.1\r\nHost: local")
        return "closed" if await asyncio.wait_for(reader.read(), 5) == b"" else "answered"


@fault(CLIENT, "hangs up in its body", "closed", calls=0)
async def in_body(world: World) -> str:
    sidecar = await world.up()
    async with raw_connection(sidecar.port) as (_, writer):
        writer.write(post_head(len(WHOLE)) + WHOLE[:20])
        await writer.drain()
        await asyncio.sleep(0.05)
        reset(writer)
    await world.settled()
    return "closed"


@fault(CLIENT, "stops in the middle of its body", "408", calls=0)
async def stalled_body(world: World) -> str:
    sidecar = await world.up()
    return status_of(await raw_exchange(sidecar.port, post_head(len(WHOLE)) + WHOLE[:20]))


@fault(CLIENT, "its chunks are not well framed", "400", calls=0)
async def bad_chunks(world: World) -> str:
    sidecar = await world.up()
    head = (
        b"POST /v1/messages HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        b"Transfer-Encoding: chunked\r\n\r\n"
    )
    return status_of(await raw_exchange(sidecar.port, head + b"zz\r\n{}\r\n0\r\n\r\n"))


@fault(CLIENT, "sends more than it declared", "400 at the end", stores=True)
async def more_than_declared(world: World) -> str:
    sidecar = await world.up()
    got = await raw_exchange(sidecar.port, post_head(len(WHOLE)) + WHOLE + b"\x00garbage\r\n\r\n")
    # What follows is no request: it reaches nobody. Where both came together, neither does the first.
    statuses = re.findall(rb"HTTP/1\.[01] (\d{3}) ", got)
    assert statuses in ([b"400"], [b"200", b"400"])
    return "400 at the end"


def _leaves(name: str, reply: Reply, after: bytes, *, half: bool = False) -> None:
    @fault(CLIENT, name, "upstream closed")
    async def leaves(world: World) -> str:
        sidecar = await world.up(first_byte_seconds=30, idle_seconds=30)
        world.upstream.replies.append(reply)
        async with raw_connection(sidecar.port) as (reader, writer):
            writer.write(post_head(len(WHOLE)) + WHOLE)
            seen = await world.upstream.called()
            if after:
                await asyncio.wait_for(reader.readuntil(after), 5)
            if half:
                writer.write_eof()
            else:
                reset(writer)
            await asyncio.wait_for(seen.gone.wait(), 2)
        await world.settled()
        return "upstream closed"


_leaves("hangs up before the first byte", Reply(first_delay_s=30), b"")
_leaves("closes its sending side before the first byte", Reply(first_delay_s=30), b"", half=True)
_leaves("hangs up in the middle of a stream", Reply(pieces=EVENTS[:3], headers=SSE, then=HANG), b"ping")
_leaves(
    "closes its sending side in a stream",
    Reply(pieces=EVENTS[:3], headers=SSE, then=HANG),
    b"ping",
    half=True,
)


@fault(CLIENT, "does not read", "upstream closed")
async def does_not_read(world: World) -> str:
    sidecar = await world.up()
    piece = b"data: " + b"x" * 65_536 + b"\n\n"
    world.upstream.replies.append(Reply(pieces=[piece] * 1000, headers=SSE))
    async with raw_connection(sidecar.port) as (_, writer):
        writer.transport.pause_reading()
        writer.write(post_head(len(WHOLE)) + WHOLE)
        seen = await world.upstream.called()
        await asyncio.wait_for(seen.gone.wait(), 5)
    await world.settled()
    return "upstream closed"


@fault(CLIENT, "300 heads without an end", "200", stores=True)
async def many_heads(world: World) -> str:
    sidecar = await world.up()
    opened = [await asyncio.open_connection("127.0.0.1", sidecar.port) for _ in range(300)]
    for _, writer in opened:
        writer.write(b"POST /v1/messages HTTP/1.1\r\nHost: local")
    got = await world.ask()
    ends = await asyncio.gather(*(asyncio.wait_for(reader.read(), 5) for reader, _ in opened))
    assert set(ends) == {b""}
    for _, writer in opened:
        writer.close()
    return got


def _graph(name: str, **attributes) -> None:
    @fault(STORE, name, "200", calls=2)
    async def broken(world: World) -> str:
        graph = MemoryGraph()
        await world.up(graph=graph, decide_seconds=0.1)
        for key, value in attributes.items():
            setattr(graph, key, value)
        first = await world.ask()
        assert json.loads(world.got)["content"][0]["text"].startswith("You asked")
        second = await world.ask()
        for key, value in attributes.items():
            setattr(graph, key, type(value)())
        return first if first == second else f"{first} {second}"


_graph("its decision fails", fail_decide=True)
_graph("its decision does not come", decide_delay_s=1.0)
_graph("it cannot write", fail_settle=True)
_graph("it writes slowly", settle_delay_s=0.5)


@fault(STORE, "cannot be opened", "200", calls=2)
async def no_store(world: World) -> str:
    def opener():
        raise OSError("no such device")

    await world.up(graph=None, opener=opener, store_retry_seconds=0.2)
    return await world.ask()


async def _process(world: World):
    process = await world.launch(
        "--upstream", world.relay.url, "--store", str(world.folder / "graph"), "--drain-seconds", "5"
    )
    world.sidecar = await world.start(upstream=world.relay.url)
    return process


async def _ask_process(world: World, process) -> bytes:
    """The bytes of a streamed answer of the process."""
    got = b""
    async with world.running().session.post(
        process.url + "/v1/messages", json=world.body(stream=True), headers={"x-api-key": "k"}
    ) as response:
        with contextlib.suppress(Exception):
            async for piece in response.content.iter_any():
                got += piece
    return got


@fault(PROCESS, "SIGTERM in the middle of a stream", "whole, exit 0", stores=True)
async def terminated(world: World) -> str:
    process = await _process(world)
    world.upstream.replies.append(Reply(pieces=EVENTS, headers=SSE, gap_s=0.1))
    asking = asyncio.ensure_future(_ask_process(world, process))
    await world.upstream.called()
    code, _ = await process.end(signal.SIGTERM)
    assert await asking == b"".join(EVENTS)
    return f"whole, exit {code}"


@fault(PROCESS, "SIGKILL in the middle of a stream, then started again", "cut, then 200", calls=2)
async def killed(world: World) -> str:
    process = await _process(world)
    world.upstream.replies.append(Reply(pieces=EVENTS[:3], headers=SSE, then=HANG))
    asking = asyncio.ensure_future(_ask_process(world, process))
    await world.upstream.called()
    await process.end(signal.SIGKILL)
    assert b"message_stop" not in await asking
    world.upstream.default = messages_reply
    again = await _process(world)
    whole = await _ask_process(world, again)
    return "cut, then 200" if b"message_stop" in whole else "cut, then nothing"


@fault(PROCESS, "is stopped for a while", "200", stores=True)
async def stopped(world: World) -> str:
    process = await _process(world)
    process.process.send_signal(signal.SIGSTOP)
    asking = asyncio.ensure_future(_ask_process(world, process))
    await asyncio.sleep(0.5)
    process.process.send_signal(signal.SIGCONT)
    return "200" if b"message_stop" in await asking else "nothing"


@fault(PROCESS, "is given a bad configuration", "the old one serves", stores=True)
async def bad_reload(world: World) -> str:
    sidecar = await world.up()
    try:
        sidecar.sidecar.reload(Settings(upstream="ftp://nowhere"))
    except SettingsError:
        return "the old one serves" if await world.ask() == "200" else "nothing serves"
    return "taken"


@fault(PROCESS, "the clock jumps back an hour", "200 and no stored answer", stores=True, calls=2)
async def clock_back(world: World) -> str:
    from zlrs_proxy.clock import Clock

    class Jumping(Clock):
        shift_ms = 0

        def wall_ms(self) -> int:
            return super().wall_ms() + self.shift_ms

    clock = Jumping()
    await world.up(clock=clock)
    assert await world.ask() == "200"
    await world.settled()
    clock.shift_ms = -3_600_000
    got = await world.ask()
    clock.shift_ms = 0
    await eventually(lambda: len(world.upstream.calls) == 2)
    return f"{got} and no stored answer"
