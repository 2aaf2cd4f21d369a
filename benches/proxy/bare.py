"""What the sidecar is measured against: the same library with nothing around it.

python bare.py relay UPSTREAM     read all, send on, answer with what came
python bare.py answer FILE        answer with the bytes of a file
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import aiohttp
import uvloop
from aiohttp import web


async def relay(upstream: str) -> web.Server:
    """A relay of whole messages."""
    session = aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0), auto_decompress=False, cookie_jar=aiohttp.DummyCookieJar()
    )

    async def handle(request: web.BaseRequest) -> web.StreamResponse:
        body = await request.read()
        headers = {"Content-Type": "application/json", "Authorization": request.headers["Authorization"]}
        async with session.post(upstream + request.raw_path, data=body, headers=headers) as answer:
            content = await answer.read()
            return web.Response(body=content, status=answer.status, content_type="application/json")

    return web.Server(handle, access_log=None)


async def answer(path: str) -> web.Server:
    """One answer to everything."""
    content = await asyncio.to_thread(Path(path).read_bytes)

    async def handle(request: web.BaseRequest) -> web.StreamResponse:
        await request.read()
        return web.Response(body=content, content_type="application/json")

    return web.Server(handle, access_log=None)


async def main(kind: str, argument: str) -> None:
    """Serve on a free port, which is printed."""
    server = await (relay if kind == "relay" else answer)(argument)
    runner = web.ServerRunner(server)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    print(runner.addresses[0][1], flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    uvloop.install()
    asyncio.run(main(*sys.argv[1:]))
