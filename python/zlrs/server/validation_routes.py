"""`/v1/validation-heads`: bring a re-scoring head, list one's own, forget one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aiohttp import web

from zlrs.server.context import CONTEXT
from zlrs.server.errors import encode, invalid
from zlrs.server.limits import read_body
from zlrs.server.validation import HEAD_BYTES, checked_head

if TYPE_CHECKING:
    from zlrs.server.validation_heads import Uploaded

CONTENT_TYPES = frozenset({"application/octet-stream", "application/safetensors"})


async def handle_upload(request: web.Request) -> web.Response:
    """Check a head and keep it for its caller."""
    context = request.app[CONTEXT]
    if request.content_type not in CONTENT_TYPES:
        given = request.headers.get("content-type", "none")
        raise invalid(f"content-type must be application/octet-stream (given {given!r})")
    data = await read_body(request, limit_bytes=HEAD_BYTES, seconds=context.config.server.body_seconds)
    head = await checked_head(context, data)
    known = context.validation_heads.add(context.tenants.of(request), head, len(data))
    return _json(_facts(known))


async def handle_list(request: web.Request) -> web.Response:
    """A caller's heads."""
    context = request.app[CONTEXT]
    heads = context.validation_heads.of(context.tenants.of(request))
    return _json({"object": "list", "data": [_facts(known) for known in heads]})


async def handle_delete(request: web.Request) -> web.Response:
    """Forget a head."""
    context = request.app[CONTEXT]
    known = context.validation_heads.remove(context.tenants.of(request), request.match_info["head"])
    return _json({**_facts(known), "deleted": True})


def _facts(known: Uploaded) -> dict[str, object]:
    return {
        "id": known.id,
        "object": "validation_head",
        "bytes": known.bytes,
        "weights": known.head.weights,
        "threshold": known.head.threshold,
    }


def _json(body: dict[str, object]) -> web.Response:
    return web.Response(
        body=encode(body), content_type="application/json", headers={"cache-control": "no-store"}
    )
