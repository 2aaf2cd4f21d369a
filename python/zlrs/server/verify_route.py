"""`POST /verify`: this server's full answers beside those that leave work out, for prompts of the caller."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Annotated, Literal

import msgspec
from aiohttp import web
from msgspec import Meta

from zlrs.server.answer import prepare, read
from zlrs.server.context import CONTEXT
from zlrs.server.errors import encode, invalid, overloaded, refuse
from zlrs.server.limits import decode
from zlrs.streams import AsyncStream
from zlrs.types import Message
from zlrs.verify.compare import DEFAULT_REPEATS, Answer, Schedule, Tally

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zlrs.engine import Engine
    from zlrs.options import GenerateOptions
    from zlrs.results import Compute
    from zlrs.server.context import ServerContext
    from zlrs.server.receipts import ModelFacts

TOKENS_LIMIT = 100_000
"""Tokens of answers that one call may ask for, of both ways together."""

RETRY_SECONDS = 30


class VerifyRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Body of `POST /verify`.

    `mode` and `temperature` say which load with a mask is compared, as they would choose it for a request;
    answers are greedy.
    """

    prompts: Annotated[
        list[Annotated[str, Meta(min_length=1, max_length=4096)]], Meta(min_length=1, max_length=16)
    ]
    model: str | None = None
    repeats: Annotated[int, Meta(ge=1, le=1000)] = DEFAULT_REPEATS
    max_tokens: Annotated[int, Meta(ge=1, le=256)] = 32
    mode: Literal["aggressive", "sparse-state-aware"] = "aggressive"
    temperature: Annotated[float, Meta(ge=0, le=2)] = 0.0


async def handle(request: web.Request) -> web.Response:
    """Compare, behind everything else that runs, one caller at a time."""
    context = request.app[CONTEXT]
    _, body = await read(request, lambda raw: decode(raw, VerifyRequest))
    if body.model is not None:
        context.require_model(body.model)
    asked = 2 * body.max_tokens * (body.repeats + len(body.prompts))
    if asked > TOKENS_LIMIT:
        raise invalid(
            f"2 x {body.max_tokens} tokens x ({body.repeats} repeats + {len(body.prompts)} prompts) are"
            f" {asked}; the limit is {TOKENS_LIMIT}",
            param="repeats",
            suggestion="Ask for fewer repeats or shorter answers",
        )
    if context.verifying.locked():
        raise overloaded(
            "another verification is running, one at a time is allowed", retry_after_seconds=RETRY_SECONDS
        )
    async with context.verifying:
        slot = context.admission.enter(batch=True)
        try:
            return await _compare(context, body, context.tenants.of(request))
        finally:
            slot.release()


async def _compare(context: ServerContext, body: VerifyRequest, tenant: bytes) -> web.Response:
    variant = context.variants.choose(body.mode, body.temperature)
    full = (context.engine, context.facts)
    arms = (full, full if variant is None else (variant.engine, variant.facts))
    # Without a mask for it the same load answers, and leaves out what it may.
    leaves = variant is None and body.mode == "aggressive" and context.facts.can_skip
    computes: tuple[Compute, Compute] = ("exact", "aggressive" if leaves else "exact")
    notes = []
    if leaves:
        notes.append(
            "no load with a mask answers these requests: the full model, exact and aggressive, is compared"
        )
    elif variant is None:
        notes.append(
            f"no load with a mask answers {body.mode} requests of temperature {body.temperature:g} here:"
            " the full model is compared with itself"
        )
    prompts = [await prepare(context.engine, [Message("user", prompt)]) for prompt in body.prompts]
    limit = min(facts.context_tokens for _, facts in arms) - body.max_tokens
    for index, ids in enumerate(prompts):
        if len(ids) > limit:
            raise invalid(
                f"prompt is too long: {len(ids)} tokens > {limit} maximum with {body.max_tokens} to answer",
                param=f"prompts.{index}",
                code="context_length_exceeded",
            )
    tally = Tally()
    for turn in Schedule(len(prompts), body.repeats):
        engine, facts = arms[turn.arm]
        options: GenerateOptions = {
            "max_tokens": body.max_tokens,
            "tenant": tenant,
            "compute": computes[turn.arm],
            "priority": "batch",
        }
        tally.add(turn, await _ask(context, engine, facts, prompts[turn.prompt], options))
    # Thousands of medians of samples: others' streams do not wait for them.
    compared = await asyncio.to_thread(tally.report, notes)
    report = {**msgspec.to_builtins(compared), "model": context.facts.version}
    if variant is not None:
        report["zero_layer"] = variant.receipt()
    return web.Response(body=encode(report), content_type="application/json")


async def _ask(
    context: ServerContext,
    engine: Engine,
    facts: ModelFacts,
    ids: Sequence[int],
    options: GenerateOptions,
) -> Answer:
    """One greedy answer; the end of the process ends it."""
    started = time.perf_counter()
    generation = engine.submit(ids, **options)
    async with AsyncStream(generation, on_end=context.streams.discard) as stream:
        context.streams.add(stream)
        async for _ in stream:
            pass
        completion = stream.completion
    if completion.finish_reason in {"cancelled", "deadline"}:
        raise refuse("api_error", "an answer was cancelled", suggestion="Send the request again")
    total_ms = 1000 * (time.perf_counter() - started)
    usage = completion.usage
    saved: float | None = facts.work.saved_share(usage)
    counted = usage.row_layer_skips and facts.work.full
    if options.get("compute") == "aggressive" and not counted:
        saved = None  # neurons may have been left out, and nobody counts them
    return Answer(completion.text, total_ms, usage.output_tokens, saved, facts.empty_layers)
