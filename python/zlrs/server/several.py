"""Several answers of one call: branches of a prompt, or independent conversations, decoded as one batch."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

from aiohttp import web

from zlrs.results import Usage
from zlrs.server import receipts
from zlrs.server.answer import begin, cache_only_miss, count, require_complete
from zlrs.server.context import CONTEXT, REQUEST_ID
from zlrs.server.errors import as_refusal, encode, invalid
from zlrs.server.log import log
from zlrs.server.sse import EventResponse, pieces
from zlrs.server.validation import validation_of
from zlrs.server.walk import Walk

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from zlrs.results import Completion, Finish, Timings
    from zlrs.server.headers import RequestHeaders
    from zlrs.server.walk import Dialect
    from zlrs.streams import AsyncStream

WAITING_PIECES = 256
"""Pieces that may wait for the client before the answers' tasks wait too."""


class SeveralDialect(Protocol):
    """One protocol's way of saying several answers."""

    def whole_of(self, completions: Sequence[Completion], clamped: Sequence[bool]) -> dict[str, object]:
        """The body of answers that are not streamed, in their order."""

    def opening_of(self, counted: Usage, number: int) -> bytes:
        """The events before the first piece of any answer."""

    def piece_of(self, index: int, text: str) -> bytes:
        """The event of a piece of an answer."""

    def ended(self, index: int, finish: Finish, *, clamped: bool) -> bytes:
        """The events after the last piece of an answer."""

    def closing_of(
        self, finishes: Sequence[Finish], clamped: Sequence[bool], end: Mapping[str, object]
    ) -> bytes:
        """The events after the last answer."""

    def said(self, finish: Completion | Finish, *, clamped: bool) -> dict[str, object]:
        """One answer's ending and usage, in the protocol's words."""


def total(usages: Sequence[Usage]) -> Usage:
    """All answers' tokens together."""
    return Usage(
        sum(usage.input_tokens for usage in usages),
        sum(usage.output_tokens for usage in usages),
        sum(usage.cached_tokens for usage in usages),
        sum(usage.drafted_tokens for usage in usages),
        sum(usage.accepted_tokens for usage in usages),
        sum(usage.sparse_skips for usage in usages),
        sum(usage.row_layer_skips for usage in usages),
        max((usage.most_layer_skips for usage in usages), default=0),
    )


def longest(timings: Sequence[Timings]) -> Timings:
    """Times of answers that ran together: of each part the longest."""
    names = vars(timings[0])
    return replace(timings[0], **{name: max(getattr(one, name) for one in timings) for name in names})


async def answer_several(
    request: web.Request, dialect: Dialect, say: SeveralDialect, asked: RequestHeaders, started: float
) -> web.StreamResponse:
    """Answer all parts of one parsed request."""
    context = request.app[CONTEXT]
    ask = dialect.ask
    if ask.ignored:
        context.metrics.ignored.add(protocol=dialect.protocol)
    if asked.session or ask.session:
        raise invalid(
            "a session holds one conversation; several answers are for requests without one",
            param=f"zlrs.{ask.parts_name}",
        )
    if asked.stream_mode != "plain" and ask.stream:
        raise invalid(
            "X-ZLRS-Stream-Mode 'provisional' is for one answer, not for several at once",
            param=f"zlrs.{ask.parts_name}",
        )
    if asked.cache_only:
        raise cache_only_miss("several answers at once are never in the decision graph")
    tenant = context.tenants.of(request)
    validation = await validation_of(context, asked, tenant)
    asked = replace(asked, validated=validation is not None)
    walk = Walk(request, context, dialect, asked, started, {}, validation=validation)
    async with AsyncExitStack() as stack:
        streams, clamped = [], []
        # All are queued before any is read: they share the beginnings of their prompts and the steps.
        for part in ask.parts:
            single = replace(ask, turns=part.turns, options=part.options)
            stream, is_clamped = await begin(walk, single, tenant)
            await stack.enter_async_context(stream)
            streams.append(stream)
            clamped.append(is_clamped)
        if ask.stream:
            return await _send_events(walk, say, streams, clamped)
        return await _send_whole(walk, say, streams, clamped)


def _end_facts(
    walk: Walk, say: SeveralDialect, ends: Sequence[Finish], clamped: Sequence[bool]
) -> dict[str, object]:
    """The `zlrs` object: the answers by tag, and the receipt unless receipts are off."""
    ask = walk.dialect.ask
    listed = [
        {"index": index, "tag": part.tag, "seed": end.seed, **say.said(end, clamped=is_clamped)}
        for index, (part, end, is_clamped) in enumerate(zip(ask.parts, ends, clamped, strict=True))
    ]
    together = replace(
        ends[0],
        usage=total([end.usage for end in ends]),
        timings=longest([end.timings for end in ends]),
    )
    facts = walk.end_facts(together) or {}
    facts.pop("seed", None)
    facts.pop("finish_reason", None)
    return {ask.parts_name: listed, **facts}


async def _read(stream: AsyncStream) -> None:
    async for _ in stream:
        pass


async def _gather(tasks: Sequence[asyncio.Task[None]]) -> None:
    """Wait for all; the first failure ends the others."""
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _send_whole(
    walk: Walk, say: SeveralDialect, streams: Sequence[AsyncStream], clamped: Sequence[bool]
) -> web.StreamResponse:
    await _gather([asyncio.create_task(_read(stream)) for stream in streams])
    for stream in streams:
        count(walk, stream.finish)
        require_complete(stream.finish)
    completions = [stream.completion for stream in streams]
    ends = [stream.finish for stream in streams]
    body = say.whole_of(completions, clamped)
    timings = longest([end.timings for end in ends])
    headers = walk.headers(receipts.latency(timings, walk.io_ms), total([end.usage for end in ends]))
    end = _end_facts(walk, say, ends, clamped)
    body["zlrs"] = {**end, "headers": headers} if walk.asked.include else end
    return web.Response(body=encode(body), content_type="application/json", headers=headers)


async def _send_events(
    walk: Walk, say: SeveralDialect, streams: Sequence[AsyncStream], clamped: Sequence[bool]
) -> web.StreamResponse:
    response = await EventResponse.start(walk.request, walk.headers())
    ping_seconds = walk.context.config.server.ping_seconds
    sent: asyncio.Queue[bytes | None] = asyncio.Queue(WAITING_PIECES)

    async def ping() -> None:
        await sent.put(walk.dialect.ping)

    async def follow(index: int, stream: AsyncStream) -> None:
        async for piece in pieces(stream, ping_seconds, ping):
            if piece.text:
                await sent.put(say.piece_of(index, piece.text))
        count(walk, stream.finish)
        require_complete(stream.finish)
        await sent.put(say.ended(index, stream.finish, clamped=clamped[index]))

    async def follow_all() -> None:
        try:
            # The others may have to wait for a place; the last event has the usage of all.
            while not await streams[0].begun(ping_seconds):
                await ping()
            counted = total([Usage(stream.input_tokens, 0, stream.cached_tokens) for stream in streams])
            await sent.put(say.opening_of(counted, len(streams)))
            await _gather([asyncio.create_task(follow(*one)) for one in enumerate(streams)])
            ends = [stream.finish for stream in streams]
            await sent.put(say.closing_of(ends, clamped, _end_facts(walk, say, ends, clamped)))
        except Exception as error:  # noqa: BLE001 - after the 200, every failure is told inside the stream
            refusal = as_refusal(error)
            request_id = walk.request[REQUEST_ID]
            log("stream_failed", request_id=request_id, type=refusal.error.type, error=repr(error))
            await sent.put(walk.dialect.failure(refusal, request_id))
        await sent.put(None)

    task = asyncio.create_task(follow_all())
    try:
        while (data := await sent.get()) is not None:
            await response.write(data)
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    return await response.finish()
