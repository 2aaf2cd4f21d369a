"""A sidecar in this process, asked through a client that shows the bytes as they travelled."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import io
from dataclasses import dataclass
from typing import TYPE_CHECKING

from yarl import URL

from support.eventually import eventually

if TYPE_CHECKING:
    import aiohttp

    from zlrs_proxy.sidecar import Sidecar

LARGE_BYTES = 1 << 19
KEY = "sk-test-0123456789abcdef"
JSON = {"content-type": "application/json", "x-api-key": KEY}


@dataclass
class Got:
    """An answer as it travelled."""

    status: int
    headers: list[tuple[str, str]]
    body: bytes
    reason: str | None = None

    def header(self, name: str) -> str | None:
        """The first value of a header."""
        return next((value for found, value in self.headers if found.lower() == name.lower()), None)

    def all(self, name: str) -> list[str]:
        """All values of a header."""
        return [value for found, value in self.headers if found.lower() == name.lower()]

    @property
    def decision(self) -> str:
        """`hit`, `miss`, `skipped`, `fill` or nothing."""
        return (self.header("x-zlrs-decision") or "").partition(";")[0]


class Running:
    """A started sidecar with a client of its own."""

    def __init__(self, sidecar: Sidecar, session: aiohttp.ClientSession) -> None:
        self.sidecar = sidecar
        self.session = session

    @property
    def url(self) -> str:
        """Base URL."""
        return self.sidecar.address

    @property
    def port(self) -> int:
        """Port of the main address."""
        return int(self.url.rpartition(":")[2])

    async def ask(self, path="/v1/messages", body=None, *, method="POST", headers=None, data=None) -> Got:
        """Send a request; `body` is made JSON, `data` is sent as it is."""
        fields = dict(JSON) | dict(headers or {})
        url = URL(self.url + path, encoded=True)
        if isinstance(data, bytes) and len(data) > LARGE_BYTES:
            data = io.BytesIO(data)
        async with self.session.request(
            method, url, json=body, data=data, headers=fields, allow_redirects=False
        ) as response:
            raw = [(name.decode(), value.decode()) for name, value in response.raw_headers]
            return Got(response.status, raw, await response.read(), response.reason)

    async def settled(self) -> None:
        """Wait until what was answered has been settled."""
        settler = self.sidecar._settler
        await eventually(lambda: settler is None or settler.is_idle(), "settling")

    async def quiet(self) -> None:
        """Wait until no request is being answered."""
        await eventually(lambda: not self.sidecar.metrics.in_flight, "quiet")


@contextlib.asynccontextmanager
async def raw_connection(port: int):
    """A bare connection: reader and writer."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        yield reader, writer
    finally:
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()


async def raw_exchange(port: int, sent: bytes, *, eof: bool = False) -> bytes:
    """Everything that comes back for these bytes until the connection ends."""
    async with raw_connection(port) as (reader, writer):
        writer.write(sent)
        await writer.drain()
        if eof:
            writer.write_eof()
        with contextlib.suppress(ConnectionError):
            return await asyncio.wait_for(reader.read(), 10)
        return b""


def post_head(length: int, path: str = "/v1/messages", version: str = "1.1") -> bytes:
    """The head of a JSON request, for connections without a client."""
    return (
        f"POST {path} HTTP/{version}\r\nHost: localhost\r\n"
        f"Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n"
    ).encode()


def message(text="Where is order 1042?", **fields) -> dict:
    """A Messages request at temperature 0."""
    return {
        "model": "m", "max_tokens": 64, "temperature": 0,
        "messages": [{"role": "user", "content": text}], **fields,
    }  # fmt: skip


def chat(text="Where is order 1042?", **fields) -> dict:
    """A Chat request at temperature 0."""
    return {"model": "m", "temperature": 0, "messages": [{"role": "user", "content": text}], **fields}


def digest(data: bytes) -> str:
    """SHA-256, so that a failure of megabytes is one line."""
    return hashlib.sha256(data).hexdigest()
