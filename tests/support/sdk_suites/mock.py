"""The API behind a client library's tests: answers what the test's type asks for, and records what came."""

from __future__ import annotations

import hashlib
import json
import re
from typing import TYPE_CHECKING

from aiohttp import web

if TYPE_CHECKING:
    from pathlib import Path

# Ours, of one hop, or drawn anew for every call.
_NOT_COMPARED = {
    "host", "via", "connection", "x-answer", "x-test", "idempotency-key", "traceparent", "transfer-encoding",
    "content-length", "keep-alive",
}  # fmt: skip
_BOUNDARY = re.compile(rb"boundary=\"?([0-9A-Za-z'()+_,./:=?-]+)")


class TypedApi:
    """Listens on a free loopback port."""

    def __init__(self, answers: Path) -> None:
        self._answers = answers
        self._runner: web.ServerRunner | None = None
        self.url = ""
        self.seen: dict[str, list[str]] = {}
        """Digests of the requests, by test."""

    async def start(self) -> None:
        """Listen."""
        self._runner = web.ServerRunner(web.Server(self._handle, access_log=None))
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}"

    async def stop(self) -> None:
        """Close."""
        if self._runner is not None:
            await self._runner.cleanup()

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        body = await request.read()
        self.seen.setdefault(request.headers.get("x-test", ""), []).append(_digest(request, body))
        path = self._answers / re.sub(r"[^0-9a-f]", "", request.headers.get("x-answer", "none"))
        if not path.is_file():
            return web.Response(status=404, text='{"error": {"message": "no such answer"}}')
        answer = json.loads(path.read_text())
        return web.Response(body=answer["body"].encode(), headers={"content-type": answer["type"]})


def _digest(request: web.BaseRequest, body: bytes) -> str:
    headers = []
    for name, value in request.raw_headers:
        if name.decode().lower() in _NOT_COMPARED:
            continue
        match = _BOUNDARY.search(value)
        boundary = match[1] if match is not None else b"no boundary"
        body = body.replace(boundary, b"B")
        headers.append((name.lower().decode(), value.replace(boundary, b"B").decode()))
    said = [request.method, request.raw_path, sorted(headers), hashlib.sha256(body).hexdigest()]
    return hashlib.sha256(json.dumps(said).encode()).hexdigest()
