"""`POST /v1/preheat`, and the warm-up before the server is ready: work done before anybody waits for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import msgspec
from aiohttp import web
from msgspec import Meta

from zlrs.server.answer import prepare, read
from zlrs.server.context import CONTEXT
from zlrs.server.errors import encode, invalid
from zlrs.server.limits import decode
from zlrs.server.log import log
from zlrs.server.messages_request import turns_of
from zlrs.streams import AsyncStream
from zlrs.types import Block, Message, MessagesRequest, MessagesTurn

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zlrs.engine import Engine
    from zlrs.server.context import ServerContext

PROMPT_LIMIT = 64
WARMUP_TEXT = "Hello"


class PreheatPrompt(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The beginning that later requests will have: a system prompt, turns, or both."""

    system: str | list[Block] | None = None
    messages: list[MessagesTurn] = []


class PreheatRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Body of `POST /v1/preheat`.

    `prompts` are computed and stay in the KV memory until others need it. `weight_blocks` brings weights into
    memory and caches: `all`, or numbers of layers; a pass goes through all layers, so all are read.
    """

    model: str
    prompts: Annotated[list[str | PreheatPrompt], Meta(max_length=PROMPT_LIMIT)] = []
    weight_blocks: str | list[int] | None = None


async def handle(request: web.Request) -> web.Response:
    """Compute prompts for the caller's own later requests, behind everything else that runs."""
    context = request.app[CONTEXT]
    _, body = await read(request, lambda raw: decode(raw, PreheatRequest))
    context.require_model(body.model)
    layers = _layers(context, body.weight_blocks)
    if not body.prompts and not layers:
        raise invalid("nothing to do: give `prompts`, or `weight_blocks`", param="prompts")
    engine, tenant = context.engine, context.tenants.of(request)
    limit = context.facts.context_tokens - 1
    # One place for all of it, also for making its tokens: its prompts are computed one after the other.
    slot = context.admission.enter(batch=True)
    try:
        prepared = []
        for index, prompt in enumerate(body.prompts):
            ids = await _ids(engine, prompt)
            if len(ids) > limit:
                raise invalid(
                    f"prompt is too long: {len(ids)} tokens > {limit} maximum",
                    param=f"prompts.{index}", code="context_length_exceeded",
                )  # fmt: skip
            prepared.append(ids)
        if not prepared:
            prepared.append(await engine.prepare_async(WARMUP_TEXT))
        results = [await _compute(context, ids, tenant) for ids in prepared]
    finally:
        slot.release()
    return web.Response(
        body=encode(
            {
                "object": "preheat",
                "model": context.facts.name,
                "prompts": results[: len(body.prompts)],
                # A pass reads the weights of every layer, whichever were named.
                "layers": context.facts.layers if layers or body.prompts else 0,
            }
        ),
        content_type="application/json",
    )


async def _ids(engine: Engine, prompt: str | PreheatPrompt) -> list[int]:
    if isinstance(prompt, str):
        # A text is a system prompt: what conversations have in common.
        prompt = PreheatPrompt(system=prompt)
    first = MessagesTurn("user", "")
    turns = turns_of(MessagesRequest(model="", messages=[*prompt.messages, first], system=prompt.system))
    if prompt.messages:
        return await prepare(engine, turns[:-1])
    # What every first user turn begins with: the tokens before its text.
    whole = await prepare(engine, turns)
    other = await prepare(engine, (*turns[:-1], Message("user", "x")))
    same = next((i for i, (a, b) in enumerate(zip(whole, other, strict=False)) if a != b), len(whole))
    return whole[:same] or whole


def _layers(context: ServerContext, blocks: str | Sequence[int] | None) -> tuple[int, ...]:
    count = context.facts.layers
    if blocks is None:
        return ()
    if blocks == "all":
        return tuple(range(count))
    if isinstance(blocks, str):
        raise invalid(f"'all', or numbers of layers (given {blocks[:40]!r})", param="weight_blocks")
    for layer in blocks:
        if not 0 <= layer < count:
            raise invalid(f"layers are 0 … {count - 1} (given {layer})", param="weight_blocks")
    return tuple(blocks)


async def _compute(context: ServerContext, ids: Sequence[int], tenant: bytes) -> dict[str, object]:
    generation = context.engine.submit(ids, max_tokens=1, priority="batch", tenant=tenant)
    async with AsyncStream(generation) as stream:
        async for _ in stream:
            pass
        counted = stream.finish.usage
    return {"tokens": counted.input_tokens, "computed_tokens": counted.input_tokens - counted.cached_tokens}


async def warm_up(engine: Engine, count: int) -> None:
    """Answer `count` requests of one token each, before the first of a user.

    Weights, caches and threads are touched then, and a model that cannot answer shows before it is called
    ready.
    """
    ids = await engine.prepare_async(WARMUP_TEXT)
    for _ in range(count):
        await engine.complete_async(ids, max_tokens=1)
    if count:
        log("warmed_up", requests=count)
