"""From a request to an answer, the same walk for both protocols: decide, admit, prepare, generate, send."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from aiohttp import web

from zlrs.results import Usage
from zlrs.server import headers as request_headers
from zlrs.server import receipts
from zlrs.server.context import CONTEXT, REQUEST_ID, ServerContext
from zlrs.server.errors import Refusal, as_refusal, encode, invalid, refuse
from zlrs.server.limits import read_body, require_json
from zlrs.server.log import log
from zlrs.server.misfires import Rerun
from zlrs.server.sse import EventResponse, pieces
from zlrs.server.turns import open_turn
from zlrs.server.validation import validation_of
from zlrs.server.walk import SECOND_MS, Dialect, Recorder, Walk
from zlrs.streams import AsyncStream

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from zlrs.engine import Engine
    from zlrs.options import GenerateOptions
    from zlrs.results import Finish
    from zlrs.server.ask import Ask
    from zlrs.server.graph_front import GraphFront, Verdict
    from zlrs.server.receipts import ModelFacts
    from zlrs.server.turns import Turn
    from zlrs.server.variants import Variant
    from zlrs.types import Message

ON_THE_LOOP_BYTES = 1 << 18
"""Parsing this much takes well under a millisecond."""

TEXT_LIMIT_BYTES = 8_000_000
"""Text of a conversation; chat templates render at most 8 MiB, their own words included."""

Parsed = TypeVar("Parsed")


async def read(request: web.Request, parse: Callable[[bytes], Parsed]) -> tuple[bytes, Parsed]:
    """The JSON body within the server's limits, and what `parse` makes of it.

    A long body is parsed in a thread, so that probes and streams of others do not wait for it.
    """
    context = request.app[CONTEXT]
    require_json(request)
    body = await read_body(
        request,
        limit_bytes=context.config.server.body_limit_bytes,
        seconds=context.config.server.body_seconds,
    )
    if len(body) > ON_THE_LOOP_BYTES:
        return body, await asyncio.to_thread(parse, body)
    return body, parse(body)


async def answer(
    request: web.Request, dialect: Dialect, asked: request_headers.RequestHeaders, body: bytes, started: float
) -> web.StreamResponse:
    """Answer one parsed request."""
    context = request.app[CONTEXT]
    if dialect.ask.ignored:
        context.metrics.ignored.add(protocol=dialect.protocol)
    validation = await validation_of(context, asked, context.tenants.of(request))
    if validation is not None:
        asked = replace(asked, validated=True)
    turn = await open_turn(context, asked, dialect.ask, context.tenants.of(request))
    if turn is not None:
        walk = Walk(request, context, dialect, asked, started, {}, turn, validation=validation)
        return await _in_session(walk, turn)
    walk = Walk(request, context, dialect, asked, started, {}, validation=validation)
    options = dialect.ask.options
    variant = context.variants.choose(
        asked.load_mode,
        options.get("temperature", 0.0),
        require_exits=options.get("require_exits", False),
    )
    if variant is not None:
        return await _masked(walk, variant)
    if validation is not None:
        if asked.cache_only:
            raise cache_only_miss("answers that are validated are not in the decision graph")
        return await generate(walk, None)
    if context.graph is None:
        if asked.cache_only:
            raise cache_only_miss("the decision graph is off")
        return await generate(walk, None)
    return await _from_graph(walk, body, context.graph)


async def _from_graph(walk: Walk, body: bytes, graph: GraphFront) -> web.StreamResponse:
    """What the graph has proven, or what the engine answers."""
    asked = walk.asked
    verdict = await graph.decide(walk.request, body)
    walk.context.metrics.decisions.add(kind=verdict.kind)
    walk.extra["X-ZLRS-Decision"] = verdict.header
    if verdict.audit:
        walk.extra["X-ZLRS-Audit"] = verdict.audit
    decision = verdict.decision
    if decision is not None and verdict.kind == "hit" and not asked.no_graph:
        replayed = graph.replay(decision, walk.replay_headers())
        if replayed is not None:
            return replayed
    if asked.cache_only:
        raise _fill(walk, verdict, graph)
    # Others may be given what is stored, so that only exact answers are.
    if decision is None or walk.is_aggressive:
        return await generate(walk, None)
    return await generate(walk, graph.recorder(decision))


async def _masked(walk: Walk, variant: Variant) -> web.StreamResponse:
    """Answer with a load with a mask. The graph keeps answers of the full model: it stays out of it."""
    if walk.asked.cache_only:
        raise cache_only_miss("answers of a load with a mask are not in the graph")
    walk.context.metrics.masked.add(mask=variant.name)
    return await generate(replace(walk, asked=replace(walk.asked, masked=True), variant=variant), None)


async def _in_session(walk: Walk, turn: Turn) -> web.StreamResponse:
    """Answer in a session. The graph knows requests, not what was said before them: it stays out of it."""
    with turn:
        if walk.asked.cache_only:
            raise cache_only_miss("requests in a session are not answered from the graph")
        walk.dialect.ask = turn.conversation(walk.dialect.ask)
        walk = replace(walk, asked=walk.asked.with_profile(turn.session.profile))
        return await generate(walk, None)


def _fill(walk: Walk, verdict: Verdict, graph: GraphFront) -> Refusal:
    """The refusal of a cache-only miss; what may be stored is computed on the side."""
    decision = verdict.decision
    if decision is None or verdict.kind != "miss":
        return cache_only_miss(f"the graph has no answer ({verdict.header})", walk.decision_headers())
    recorder = graph.recorder(decision)
    tenant = walk.context.tenants.of(walk.request)
    walk = replace(walk, asked=walk.asked.exact())
    dialect, context = walk.dialect, walk.context

    async def work() -> None:
        stream, clamped = await begin(walk, dialect.ask, tenant)
        async with stream:
            async for _ in stream:
                pass
            count(walk, stream.finish)
            require_complete(stream.finish)
            recorder.settle(encode(dialect.whole(stream.completion, context.facts, clamped=clamped)))

    # The queue is looked at here, so that a full one is not called a fill.
    if not context.admission.has_room or not context.fills.begin(decision.node, work):
        return cache_only_miss(f"the graph has no answer ({verdict.header})", walk.decision_headers())
    header = "fill" + verdict.header.removeprefix("miss")
    walk.extra["X-ZLRS-Decision"] = header
    return cache_only_miss(
        f"the graph has no answer; it is being computed ({header})", walk.decision_headers()
    )


def cache_only_miss(why: str, headers: Mapping[str, str] | None = None) -> Refusal:
    """504: the graph alone was to answer and cannot."""
    return refuse(
        "cache_only_miss",
        f"X-ZLRS-Cache-Only was set and {why}",
        suggestion="Try again later, or without X-ZLRS-Cache-Only",
        headers=headers or {},
    )


async def generate(walk: Walk, recorder: Recorder | None) -> web.StreamResponse:
    """Let the engine answer."""
    tenant = walk.context.tenants.of(walk.request)
    stream, clamped = await begin(walk, walk.dialect.ask, tenant)
    async with stream:
        if walk.dialect.ask.stream:
            return await _send_events(walk, stream, recorder, clamped=clamped)
        return await _send_whole(walk, stream, recorder, clamped=clamped)


async def begin(walk: Walk, ask: Ask, tenant: bytes) -> tuple[AsyncStream, bool]:
    """Admit, make tokens, queue.

    Args:
        walk: The request.
        ask: What to answer.
        tenant: Whose request it is: a keyed hash.

    Returns:
        The running answer, and whether the window left less room than was asked for.

    Raises:
        Refusal: 529 when the queue is full, 400 when the prompt does not fit.
    """
    context = walk.context
    context.engine  # noqa: B018 - refuses while the process begins or ends
    engine = walk.engine
    slot = context.admission.enter(batch=ask.options.get("priority") == "batch")
    try:
        with walk.io():
            ids = await prepare(engine, ask.turns)
        walk.prompt_ids.extend(ids)
        options, clamped = _with_limits(context, walk.facts, ask.options, len(ids))
        options["tenant"] = tenant
        options["validation"] = walk.validation
        if ask.stream:
            options["stream_mode"] = walk.asked.stream_mode
        options["compute"] = walk.asked.engine_compute
        if walk.turn is not None:
            await walk.turn.begin(ids)
        generation = engine.submit(ids, **options)

        def ended(stream: AsyncStream) -> None:
            context.streams.discard(stream)
            slot.release()

        stream = AsyncStream(generation, on_end=ended)
    except BaseException:
        slot.release()
        raise
    context.streams.add(stream)
    context.metrics.tokens.add(len(ids), type="input")
    return stream, clamped


async def prepare(engine: Engine, turns: Sequence[Message]) -> list[int]:
    """Token ids of a conversation.

    Raises:
        Refusal: 400 when there is more text than a chat template may render; no window holds so much.
    """
    size = sum(len(turn.content.encode()) for turn in turns)
    if size > TEXT_LIMIT_BYTES:
        raise invalid(
            f"prompt is too long: {size} bytes of text > {TEXT_LIMIT_BYTES} maximum",
            code="context_length_exceeded",
            suggestion="Shorten the conversation",
        )
    return await engine.prepare_async(turns)


def _with_limits(
    context: ServerContext, facts: ModelFacts, options: GenerateOptions, tokens: int
) -> tuple[GenerateOptions, bool]:
    """Complete the options by what the window and the settings allow."""
    limit = facts.context_tokens - 1
    if tokens > limit:
        raise invalid(
            f"prompt is too long: {tokens} tokens > {limit} maximum",
            code="context_length_exceeded",
            suggestion="Shorten the conversation, or load the model with more `context_tokens`",
        )
    room = facts.context_tokens - tokens
    settings = context.config.server
    wanted = options.get("max_tokens")
    if wanted is None:
        # Without a wish, take what fits; a wish beyond the KV memory is refused by the engine, with numbers.
        wanted = max(1, min(settings.default_max_tokens, facts.kv_tokens - tokens))
    complete: GenerateOptions = {**options, "max_tokens": min(wanted, room)}
    if settings.deadline_seconds is not None:
        complete["deadline_ms"] = int(settings.deadline_seconds * SECOND_MS)
    return complete, wanted > room


def require_complete(finish: Finish) -> None:
    """An answer that was cut short by us is an error, not an answer."""
    if finish.finish_reason == "deadline":
        raise refuse(
            "timeout_error",
            f"the answer was not ready before its deadline ({finish.usage.output_tokens} tokens were)",
            suggestion="Ask for fewer tokens, or raise `server.deadline_seconds`",
        )
    if finish.finish_reason == "cancelled":
        raise refuse("api_error", "the answer was cancelled", suggestion="Send the request again")


def count(walk: Walk, finish: Finish) -> None:
    """Count an ended answer for the metrics."""
    metrics = walk.context.metrics
    metrics.finished.add(reason=finish.finish_reason)
    metrics.tokens.add(finish.usage.output_tokens, type="output")
    if finish.usage.output_tokens:
        metrics.first_token.observe(finish.timings.first_token_ms / SECOND_MS)


def offer_rerun(walk: Walk, stream: AsyncStream) -> None:
    """Let the full model look at a masked answer some time, if it is drawn."""
    variant = walk.variant
    # What was corrected is not what the masked model says.
    if variant is None or walk.validation is not None:
        return
    completion = stream.completion
    options: GenerateOptions = {**walk.dialect.ask.options, "tenant": walk.context.tenants.of(walk.request)}

    def rerun() -> Rerun:
        ended = completion.finish_reason == "stop"
        return Rerun(variant, walk.prompt_ids, completion.token_ids, options, ended=ended)

    walk.context.reruns.offer(rerun, walk.context.engine)


async def _send_whole(
    walk: Walk, stream: AsyncStream, recorder: Recorder | None, *, clamped: bool
) -> web.StreamResponse:
    async for _ in stream:
        pass
    completion = stream.completion
    count(walk, stream.finish)
    require_complete(stream.finish)
    if walk.turn is not None:
        walk.turn.answered(stream)
    offer_rerun(walk, stream)
    body = walk.dialect.whole(completion, walk.facts, clamped=clamped)
    if recorder is not None:
        recorder.settle(encode(body))
    headers = walk.headers(receipts.latency(stream.finish.timings, walk.io_ms), completion.usage)
    end = walk.end_facts(stream.finish)
    if end is not None:
        body["zlrs"] = {**end, "headers": headers} if walk.asked.include else end
    return web.Response(body=encode(body), content_type="application/json", headers=headers)


async def _send_events(
    walk: Walk, stream: AsyncStream, recorder: Recorder | None, *, clamped: bool
) -> web.StreamResponse:
    dialect = walk.dialect
    response = await EventResponse.start(walk.request, walk.headers())

    async def ping() -> None:
        await response.write(dialect.ping)

    # What need not be computed is known when work begins, and the first event tells it.
    while not await stream.begun(walk.context.config.server.ping_seconds):
        await ping()
    counted = Usage(stream.input_tokens, 0, stream.cached_tokens)
    await response.write(dialect.opening(walk.facts, counted))
    try:
        async for piece in pieces(stream, walk.context.config.server.ping_seconds, ping):
            with walk.io():
                for event in piece.events:
                    await response.write(dialect.told(event))
                if piece.text:
                    await response.write(dialect.piece(piece.text))
        count(walk, stream.finish)
        require_complete(stream.finish)
        if walk.turn is not None:
            walk.turn.answered(stream)
            await response.write(walk.turn.farewell(dialect.protocol))
        offer_rerun(walk, stream)
        await response.write(dialect.closing(stream.finish, walk.end_facts(stream.finish), clamped=clamped))
    except ConnectionError:
        raise
    except Exception as error:  # noqa: BLE001 - after the 200, every failure is told inside the stream
        refusal = as_refusal(error)
        log("stream_failed", request_id=walk.request[REQUEST_ID], type=refusal.error.type, error=repr(error))
        await response.write(dialect.failure(refusal, walk.request[REQUEST_ID]))
        return await response.finish()
    if recorder is not None:
        recorder.settle(encode(dialect.whole(stream.completion, walk.facts, clamped=clamped)))
    return await response.finish()
