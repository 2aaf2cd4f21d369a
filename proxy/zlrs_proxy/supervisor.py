"""Several workers by spawn, on one address and one store.

Each worker has a listening socket of its own on the shared address (SO_REUSEPORT), so that the system spreads
connections evenly. The sockets are this process's: when a worker dies, what waits in its queue is answered
by the one that takes its place. Where the system cannot spread them, all workers share one socket.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import os
import signal
import socket
import sys
import tempfile
from typing import TYPE_CHECKING

from zlrs_proxy.tally import retire
from zlrs_proxy.worker import READY, Place

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zlrs_proxy.settings import Settings

_LOG = logging.getLogger("zlrs_proxy")
_BACKLOG = 1024
_AGAIN_SECONDS = 0.5
_AGAIN_LIMIT_SECONDS = 30.0
_STEADY_SECONDS = 60.0
_MARGIN_SECONDS = 10.0
_SPREADS = hasattr(socket, "SO_REUSEPORT") and sys.platform == "linux"


class Supervisor:
    """Starts workers, starts those that died again, and passes signals on.

    Args:
        argv: The command line, which every worker reads for itself.
        settings: As this process has read them: addresses and number of workers.
    """

    def __init__(self, argv: Sequence[str], settings: Settings) -> None:
        self._argv = argv
        self._settings = settings
        self._folder = tempfile.TemporaryDirectory(prefix="zlrs-proxy-")
        self._processes: dict[int, asyncio.subprocess.Process] = {}
        self._stopping = asyncio.Event()
        self._ready = [asyncio.Event() for _ in range(settings.workers)]
        self._exit_code = 0
        count = settings.workers if _SPREADS else 1
        self._sockets = sockets_of(settings.host, settings.port, count)
        self._admin = (
            sockets_of(settings.admin_host, settings.admin_port, 1)[0]
            if settings.admin_port is not None
            else None
        )
        self.address = _url(self._sockets[0])
        self.admin_address = _url(self._admin) if self._admin is not None else None

    async def run(self, ready: asyncio.Event) -> int:
        """Until a signal; sets `ready` when all workers answer. Returns the exit code."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stop)
        loop.add_signal_handler(signal.SIGHUP, self._pass_on, signal.SIGHUP)
        tasks = [loop.create_task(self._keep(index)) for index in range(self._settings.workers)]
        waiting = loop.create_task(self._all_ready(ready))
        try:
            await asyncio.wait(tasks)
        finally:
            waiting.cancel()
            for one in [*self._sockets, *([self._admin] if self._admin is not None else [])]:
                one.close()
            self._folder.cleanup()
        return self._exit_code

    async def _all_ready(self, ready: asyncio.Event) -> None:
        for one in self._ready:
            await one.wait()
        ready.set()

    def _stop(self) -> None:
        # A second signal ends this process at once, and the workers with it.
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().remove_signal_handler(number)
        self._stopping.set()
        self._pass_on(signal.SIGTERM)

    def _pass_on(self, number: int) -> None:
        for process in self._processes.values():
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(number)

    async def _keep(self, index: int) -> None:
        """One worker, for as long as the sidecar runs."""
        loop = asyncio.get_running_loop()
        pause = _AGAIN_SECONDS
        while not self._stopping.is_set():
            began = loop.time()
            code = await self._once(index)
            if self._stopping.is_set():
                return
            if not self._ready[index].is_set():
                # It never answered: its settings or its address are no good, and it has said why.
                self._exit_code = code if code > 0 else 1
                self._stopping.set()
                self._pass_on(signal.SIGTERM)
                return
            _LOG.error(
                "a worker ended; it is started again", extra={"fields": {"worker": index, "code": code}}
            )
            if loop.time() - began > _STEADY_SECONDS:
                pause = _AGAIN_SECONDS
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), pause)
            pause = min(2 * pause, _AGAIN_LIMIT_SECONDS)

    async def _once(self, index: int) -> int:
        link, theirs = socket.socketpair()
        link.setblocking(False)
        listening = self._sockets[index % len(self._sockets)].fileno()
        admin = self._admin.fileno() if self._admin is not None else None
        place = Place(
            index=index, listen=listening, admin=admin, link=theirs.fileno(), folder=self._folder.name
        )
        given = [listening, theirs.fileno(), *([admin] if admin is not None else [])]
        process: asyncio.subprocess.Process | None = None
        try:
            # A session of its own: Ctrl-C on the terminal is for this process, which then stops the workers.
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                "zlrs_proxy",
                *self._argv,
                "--worker",
                place.encode(),
                pass_fds=given,
                start_new_session=True,
                stdin=asyncio.subprocess.DEVNULL,
            )
            self._processes[index] = process
            theirs.close()
            if self._stopping.is_set():
                process.terminate()
            if await asyncio.get_running_loop().sock_recv(link, 1) == READY:
                self._ready[index].set()
            return await self._ended(process)
        finally:
            self._processes.pop(index, None)
            theirs.close()
            link.close()
            if process is not None:
                retire(self._folder.name, index, process.pid)

    async def _ended(self, process: asyncio.subprocess.Process) -> int:
        """Its exit code; a worker that does not stop in time is killed."""
        ended = asyncio.ensure_future(process.wait())
        stopping = asyncio.ensure_future(self._stopping.wait())
        await asyncio.wait({ended, stopping}, return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        if not ended.done():
            await asyncio.wait({ended}, timeout=self._settings.drain_seconds + _MARGIN_SECONDS)
        if not ended.done():
            process.kill()
        return await ended


def sockets_of(host: str, port: int, count: int) -> list[socket.socket]:
    """Listening sockets on one address; port 0 takes a free one for all.

    Raises:
        OSError: The address cannot be taken.
    """
    family, kind, protocol, _, address = socket.getaddrinfo(
        host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )[0]
    made: list[socket.socket] = []
    try:
        if port and count > 1:
            # Sockets that share an address share it with any other process of this user: ask first, alone.
            with socket.socket(family, kind, protocol) as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                probe.bind(address)
        for _ in range(count):
            one = socket.socket(family, kind, protocol)
            made.append(one)
            one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if count > 1:
                one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            one.bind(address if len(made) == 1 else made[0].getsockname())
            one.listen(_BACKLOG)
            one.setblocking(False)
    except OSError as error:
        for one in made:
            one.close()
        number = error.errno or errno.EADDRNOTAVAIL
        raise OSError(number, os.strerror(number)) from error
    return made


def _url(listening: socket.socket) -> str:
    host, port = listening.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
