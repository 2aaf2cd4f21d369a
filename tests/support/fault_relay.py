"""A relay of bytes between sidecar and upstream that breaks what it is told to break.

Our own instead of toxiproxy, which has the same eight toxics: tests then need no second toolchain, and a
fault can be set to the byte.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
from dataclasses import dataclass
from typing import Literal

UP, DOWN = "up", "down"
"""Towards the upstream, and back to the sidecar."""


@dataclass
class Toxic:
    """One fault of one direction; all that are set apply in order."""

    direction: Literal["up", "down"]
    latency_s: float = 0.0
    """Wait before each piece."""
    bytes_per_second: int = 0
    slice_bytes: int = 0
    """Send pieces of this size."""
    limit_bytes: int | None = None
    """Let through so many bytes, and then do `then`."""
    in_body: bool = False
    """Count them from the end of the head."""
    then: Literal["close", "reset", "hang"] = "close"
    flip_byte: int | None = None
    """Change the byte at this place."""
    slow_close_s: float = 0.0
    """Wait before an end is passed on."""


class FaultRelay:
    """Listens on a free loopback port and forwards to one address."""

    def __init__(self, target_url: str) -> None:
        host, _, port = target_url.rpartition("//")[2].rpartition(":")
        self._target = (host, int(port))
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._writers: set[asyncio.StreamWriter] = set()
        self.toxics: list[Toxic] = []
        self.connections = 0
        self.port = 0

    @property
    def url(self) -> str:
        """Where the sidecar sends."""
        return f"http://127.0.0.1:{self.port}"

    async def start(self) -> None:
        """Listen, again on the same port after `down`."""
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def down(self) -> None:
        """Refuse new connections and reset those that are open."""
        if self._server is not None:
            self._server.close()
            self._server = None
        self.reset_all()

    def reset_all(self) -> None:
        """Reset every open connection."""
        for writer in list(self._writers):
            reset(writer)

    async def stop(self) -> None:
        """Close everything."""
        await self.down()
        for task in list(self._tasks):
            task.cancel()
        if self._tasks:
            await asyncio.wait(set(self._tasks))

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self._writers.add(writer)
        far: asyncio.StreamWriter | None = None
        try:
            far_reader, far = await asyncio.open_connection(*self._target)
            self._writers.add(far)
            await asyncio.gather(self._pump(reader, far, UP), self._pump(far_reader, writer, DOWN))
        except (ConnectionError, asyncio.CancelledError):
            pass
        finally:
            self._tasks.discard(task)
            for one in (writer, far):
                if one is not None:
                    self._writers.discard(one)
                    one.close()

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, direction: str) -> None:
        passed = 0
        head = b""
        body_start: int | None = None
        while piece := await reader.read(65_536):
            toxics = [toxic for toxic in self.toxics if toxic.direction == direction]
            if body_start is None:
                head += piece
                end = head.find(b"\r\n\r\n")
                body_start = end + 4 if end >= 0 else None
            for whole in _parts(piece, toxics):
                part, stops = await self._spoil(whole, passed, body_start, toxics)
                passed += len(part)
                if part:
                    writer.write(part)
                    await writer.drain()
                if stops is not None:
                    await _stop(writer, stops)
                    return
        for toxic in self.toxics:
            if toxic.direction == direction:
                await asyncio.sleep(toxic.slow_close_s)
        with contextlib.suppress(OSError):
            writer.write_eof()

    @staticmethod
    async def _spoil(
        part: bytes, passed: int, body_start: int | None, toxics: list[Toxic]
    ) -> tuple[bytes, str | None]:
        for toxic in toxics:
            if toxic.latency_s:
                await asyncio.sleep(toxic.latency_s)
            if toxic.bytes_per_second:
                await asyncio.sleep(len(part) / toxic.bytes_per_second)
            if toxic.flip_byte is not None and passed <= toxic.flip_byte < passed + len(part):
                at = toxic.flip_byte - passed
                part = part[:at] + bytes([part[at] ^ 0x80]) + part[at + 1 :]
            if toxic.limit_bytes is None or (toxic.in_body and body_start is None):
                continue
            limit = toxic.limit_bytes + ((body_start or 0) if toxic.in_body else 0)
            if passed + len(part) >= limit:
                return part[: max(0, limit - passed)], toxic.then
        return part, None


def _parts(piece: bytes, toxics: list[Toxic]) -> list[bytes]:
    size = min((toxic.slice_bytes for toxic in toxics if toxic.slice_bytes), default=len(piece))
    return [piece[at : at + size] for at in range(0, len(piece), size)]


async def _stop(writer: asyncio.StreamWriter, how: str) -> None:
    if how == "hang":
        await asyncio.sleep(60)
    elif how == "reset":
        reset(writer)
    else:
        writer.close()
    raise ConnectionResetError(how)


def reset(writer: asyncio.StreamWriter) -> None:
    """End a connection with a reset instead of an end."""
    raw = writer.get_extra_info("socket")
    if raw is not None and not writer.transport.is_closing():
        with contextlib.suppress(OSError):
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()
