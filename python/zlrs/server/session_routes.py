"""`/v1/sessions/{id}`: look at a session, end it, save it, type ahead in it.

Every call needs the session's secret in `X-ZLRS-Session` beside the id in the path, and the credential that
opened it. An id with another secret, an unknown id and a session that is over are answered alike.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import msgspec
from aiohttp import web

from zlrs.server import headers as request_headers
from zlrs.server.answer import prepare, read
from zlrs.server.context import CONTEXT
from zlrs.server.drafts import Draft
from zlrs.server.errors import encode, invalid, refuse
from zlrs.server.limits import decode
from zlrs.server.messages_request import turns_of
from zlrs.server.session_lookup import find_session, unknown_session
from zlrs.server.sessions import Life
from zlrs.server.sse import EventResponse
from zlrs.server.turns import expired_event
from zlrs.types import Message, MessagesRequest, MessagesTurn
from zlrs.typing_ahead import settled_ids
from zlrs.wire import message_event

if TYPE_CHECKING:
    from zlrs.kept import Saved
    from zlrs.server.context import ServerContext
    from zlrs.server.sessions import Session
    from zlrs.server.state_files import StateFiles

EVENT_STREAM = "text/event-stream"


class DraftRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Body of `POST /v1/sessions/{id}/draft`: what the next request will be, as far as it is typed.

    `text` is the next user turn of a session that is appended to. `messages` and `system` are a whole
    conversation whose last turn is still being typed, for clients that send everything each time.
    """

    text: str | None = None
    messages: list[MessagesTurn] | None = None
    system: str | None = None


async def handle_get(request: web.Request) -> web.StreamResponse:
    """The session's facts; with `Accept: text/event-stream`, a stream that tells when it ends."""
    context = request.app[CONTEXT]
    session = await _session(request)
    if EVENT_STREAM not in request.headers.get("accept", ""):
        return _json(_facts(context, session))
    response = await EventResponse.start(request, {})
    while not session.over.is_set():
        over = asyncio.ensure_future(session.over.wait())
        done, _ = await asyncio.wait({over}, timeout=context.config.server.ping_seconds)
        if not done:
            over.cancel()
            await response.write(message_event({"type": "ping"}))
    await response.write(message_event(expired_event(session)))
    return await response.finish()


async def handle_delete(request: web.Request) -> web.Response:
    """End the session softly: a request with its secret within the grace takes it up again."""
    context = request.app[CONTEXT]
    session = await _session(request)
    seconds = context.sessions.close(session)
    if session.draft is not None:
        session.draft.cancel()
    if context.state_files is not None:
        await asyncio.to_thread(context.state_files.forget, session.digest)
    return _json({**_facts(context, session), "grace_seconds": round(seconds, 3)})


async def handle_flush(request: web.Request) -> web.Response:
    """Write the session to disk now."""
    context = request.app[CONTEXT]
    session = await _session(request)
    if context.state_files is None:
        raise refuse(
            "conflict_error",
            "this server saves no sessions",
            suggestion="Start it with `--sessions-path DIR` (`session.path`)",
        )
    # To its end, also when the client goes: what is written for a session that was destroyed is taken back.
    saved = await asyncio.shield(_save(context.state_files, session))
    return _json({**_facts(context, session), "saved_tokens": saved.tokens, "saved_bytes": saved.bytes})


async def _save(files: StateFiles, session: Session) -> Saved:
    """Write a session that is open, and still open when it is written.

    Raises:
        Refusal: 409 when it is being destroyed, 404 when it has ended.
    """
    if session.is_open():
        saved = await asyncio.to_thread(files.save, session)
        if session.is_open():
            return saved
        await asyncio.to_thread(files.forget, session.digest)
    if session.life is Life.OVER:
        raise refuse("session_expired", "the session has ended")
    raise refuse(
        "conflict_error",
        f"session {session.id} is being destroyed and is not written",
        suggestion="Use it within its grace, then flush it",
    )


async def handle_draft(request: web.Request) -> web.Response:
    """Take what is typed so far and compute what of it is settled, behind everything else that runs."""
    context = request.app[CONTEXT]
    session = await _session(request)
    _, body = await read(request, lambda raw: decode(raw, DraftRequest))
    turns = _typed_turns(body, session)
    *earlier, last = turns
    slot = context.counting.enter()
    try:
        engine = context.engine
        whole = await prepare(engine, turns)

        def render(text: str) -> list[int]:
            return engine.prepare((*earlier, Message(last.role, text)))

        ids = await asyncio.to_thread(settled_ids, last.content, render)
    finally:
        slot.release()
    limit = context.facts.context_tokens - 1
    if len(ids) > limit:
        raise invalid(
            f"prompt is too long: {len(ids)} tokens > {limit} maximum", code="context_length_exceeded"
        )
    context.sessions.use(session, context.tenants.of(request))
    if session.draft is None:
        session.draft = Draft(context.engine, context.admission, context.sessions, session)
    if ids and not session.answering:
        session.draft.aim(ids)
    return _json(
        {
            "id": session.id,
            "object": "session.draft",
            "settled_tokens": len(ids),
            "held_back_tokens": len(whole) - len(ids),
            "kept_tokens": session.kept.tokens,
            "updates": session.draft.updates,
        }
    )


def _typed_turns(body: DraftRequest, session: Session) -> tuple[Message, ...]:
    if (body.text is None) == (body.messages is None):
        raise invalid("send either `text`, or `messages`", param="text")
    if body.text is not None:
        return (*session.turns, Message("user", body.text))
    turns = turns_of(MessagesRequest(model="", messages=body.messages or [], system=body.system))
    if turns[-1].role != "user":
        raise invalid("the last turn is the one being typed: a user's", param="messages")
    return turns


async def _session(request: web.Request) -> Session:
    """The session of path, secret and credential.

    Raises:
        Refusal: 404, 403, and as `find_session`.
    """
    context = request.app[CONTEXT]
    asked = request_headers.parse(request.headers, request.app[CONTEXT].config.engine.compute)
    if asked.session in {"", "create"}:
        raise invalid(
            "X-ZLRS-Session: the session's secret is required",
            suggestion="Send the secret that came with the session's first answer",
        )
    tenant = context.tenants.of(request)
    session = await find_session(context, asked.session, tenant, migrate=asked.migrate)
    if session.id != request.match_info["session"]:
        raise unknown_session()
    return session


def _facts(context: ServerContext, session: Session) -> dict[str, object]:
    return {
        "id": session.id,
        "object": "session",
        "state": session.life.value,
        "model": session.model,
        "created": int(session.created),
        "answers": session.answers,
        "answering": session.answering,
        "tokens": len(session.kept.ids),
        "kept_tokens": session.kept.tokens,
        "state_vector": session.state_vector(),
        "profile": dict(session.profile),
        "recompute": session.recompute,
        "idle_seconds": session.idle_seconds,
        "expires_in_seconds": round(max(0.0, session.expires() - context.monotonic()), 3),
    }


def _json(body: dict[str, object]) -> web.Response:
    return web.Response(
        body=encode(body), content_type="application/json", headers={"cache-control": "no-store"}
    )
