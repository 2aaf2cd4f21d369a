"""A worker's side of a sidecar with several: sockets it was given, the word that it is ready, its metrics."""

from __future__ import annotations

import asyncio
import os
import socket
from typing import TYPE_CHECKING

import msgspec

from zlrs_proxy.tally import Tally

if TYPE_CHECKING:
    from collections.abc import Callable

_PUBLISH_SECONDS = 1.0
READY = b"r"


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """What the supervisor tells a worker; descriptors are inherited."""

    index: int
    listen: int
    admin: int | None
    link: int
    folder: str

    def encode(self) -> str:
        """As one argument."""
        return msgspec.json.encode(self).decode()

    @staticmethod
    def decode(text: str) -> Place:
        """From the argument."""
        return msgspec.json.decode(text, type=Place)


class Worker:
    """The link to the supervisor. Used on the loop."""

    def __init__(self, place: Place) -> None:
        self.listening = socket.socket(fileno=place.listen)
        self.admin = socket.socket(fileno=place.admin) if place.admin is not None else None
        self._link = socket.socket(fileno=place.link)
        self._link.setblocking(False)
        self.tally = Tally(place.folder, place.index)
        self._task: asyncio.Task[None] | None = None

    def start(self, metrics: Callable[[], str], gone: Callable[[], None]) -> None:
        """Say that requests are answered; publish metrics; `gone` hears that the supervisor has ended."""
        loop = asyncio.get_running_loop()

        def heard() -> None:
            if not self._link.recv(64):
                loop.remove_reader(self._link)
                gone()

        loop.add_reader(self._link, heard)
        self._link.send(READY)
        self._task = loop.create_task(self._publish(metrics))

    async def stop(self, metrics: Callable[[], str]) -> None:
        """Publish for the last time."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})
            self.tally.publish(metrics())
        asyncio.get_running_loop().remove_reader(self._link)
        self._link.close()

    async def _publish(self, metrics: Callable[[], str]) -> None:
        while True:
            await asyncio.to_thread(self.tally.publish, metrics())
            await asyncio.sleep(_PUBLISH_SECONDS)


def cut() -> None:
    """End at once: nobody is left who would."""
    os._exit(1)
