"""`GET /v1/models`: one list that both protocols' clients can read."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import TYPE_CHECKING

from aiohttp import web

from zlrs.server.context import CONTEXT
from zlrs.server.errors import encode, invalid

if TYPE_CHECKING:
    from zlrs.server.context import ServerContext

LIMIT = (1, 1000)
DEFAULT_LIMIT = 20


def _model(context: ServerContext, name: str) -> dict[str, object]:
    facts = context.facts
    created = int(context.loaded_at)
    return {
        "id": name,
        "type": "model",
        "object": "model",
        "display_name": facts.name,
        "created_at": datetime.fromtimestamp(created, timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "created": created,
        "owned_by": "zlrs",
        "max_input_tokens": facts.context_tokens - 1,
        "max_tokens": facts.context_tokens,
    }


async def handle_list(request: web.Request) -> web.Response:
    """The loaded model and its aliases."""
    context = request.app[CONTEXT]
    names = list(context.model_names)
    limit = _limit(request.query.get("limit"))
    after, before = request.query.get("after_id"), request.query.get("before_id")
    if after in names:
        names = names[names.index(after) + 1 :]
    if before in names:
        names = names[: names.index(before)]
    shown = names[:limit]
    body = {
        "object": "list",
        "data": [_model(context, name) for name in shown],
        "has_more": len(names) > len(shown),
        "first_id": shown[0] if shown else None,
        "last_id": shown[-1] if shown else None,
    }
    return web.Response(body=encode(body), content_type="application/json")


async def handle_one(request: web.Request) -> web.Response:
    """One model by name."""
    context = request.app[CONTEXT]
    name = request.match_info["model"]
    context.require_model(name)
    return web.Response(body=encode(_model(context, name)), content_type="application/json")


def _limit(given: str | None) -> int:
    if given is None:
        return DEFAULT_LIMIT
    if not (given.isascii() and given.isdigit() and len(given) < 6 and LIMIT[0] <= int(given) <= LIMIT[1]):  # noqa: PLR2004 - the most digits that can be meant
        raise invalid(f"must be {LIMIT[0]} … {LIMIT[1]} (given {given[:20]!r})", param="limit")
    return int(given)
