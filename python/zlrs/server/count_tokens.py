"""`POST /v1/messages/count_tokens`: the length of the rendered prompt, system and template included."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aiohttp import web

from zlrs.server.answer import prepare, read
from zlrs.server.context import CONTEXT
from zlrs.server.errors import encode
from zlrs.server.messages_request import parse, turns_of

if TYPE_CHECKING:
    from aiohttp.web import Request


async def handle(request: Request) -> web.Response:
    """Count the tokens that `/v1/messages` would report as `input_tokens`."""
    context = request.app[CONTEXT]
    _, (parsed, _) = await read(request, parse)
    context.require_model(parsed.model)
    turns = turns_of(parsed)
    slot = context.counting.enter()
    try:
        ids = await prepare(context.engine, turns)
    finally:
        slot.release()
    return web.Response(body=encode({"input_tokens": len(ids)}), content_type="application/json")
