"""Finding a session: in memory, on disk, from another model; for its owner and nobody else."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING

from zlrs.errors import KvCorruptError, KvIncompatibleError, SessionExpiredError
from zlrs.server.drafts import Draft
from zlrs.server.errors import Refusal, refuse
from zlrs.server.ids import new_id
from zlrs.server.log import log
from zlrs.server.sessions import Session, digest_of, require_owner

if TYPE_CHECKING:
    from collections.abc import Collection

    from zlrs.kept import Fit
    from zlrs.server.context import ServerContext

JOINT = "-to-"
"""Between the two names of a migration."""


async def find_session(
    context: ServerContext, secret: str, tenant: bytes, *, migrate: str = "", has_text: bool = False
) -> Session:
    """The session with this secret, for its owner: from memory, else from disk.

    Args:
        context: The server.
        secret: What the client sent.
        tenant: Whose request it is.
        migrate: The migration asked for.
        has_text: The request brings the whole conversation, so that a damaged state can be computed again.

    Raises:
        Refusal: As `open_turn`.
    """
    digest = digest_of(secret)
    session = context.sessions.find(digest)
    if session is None and context.state_files is not None:
        await context.restoring.acquire()
        # A thread cannot be told to end: who goes away meanwhile leaves the reading to its end, and the next
        # one begins only then.
        reading = asyncio.ensure_future(_read(context, digest, tenant, migrate=migrate, has_text=has_text))
        reading.add_done_callback(partial(_end_of_reading, context))
        session = await asyncio.shield(reading)
    if session is None:
        raise unknown_session()
    require_owner(session, tenant)
    if migrate and session.model != context.facts.name:
        require_names(migrate, session.model, context.model_names)
        session.model = context.facts.name
    elif migrate:
        require_names(migrate, None, context.model_names)
    return session


async def _read(
    context: ServerContext, digest: bytes, tenant: bytes, *, migrate: str, has_text: bool
) -> Session | None:
    # Somebody else may have restored it meanwhile.
    session = context.sessions.find(digest)
    if session is None:
        session = await _restore(context, digest, tenant, migrate=migrate, has_text=has_text)
    return session


def _end_of_reading(context: ServerContext, reading: asyncio.Task[Session | None]) -> None:
    context.restoring.release()
    if not reading.cancelled():
        # Its caller may be gone, who would have heard of an error.
        reading.exception()


def unknown_session() -> Refusal:
    """One answer for what has ended and what never was."""
    return refuse("session_expired", "there is no session with this secret: it is over or was never there")


async def _restore(
    context: ServerContext, digest: bytes, tenant: bytes, *, migrate: str, has_text: bool
) -> Session | None:
    files, engine = context.state_files, context.engine
    if files is None:
        return None
    try:
        note, kept, fit = await asyncio.to_thread(files.restore, engine, digest, tenant)
    except SessionExpiredError:
        return None
    except KvIncompatibleError as error:
        # It may be good: another key, version or limit of this server takes it.
        log("session_kept", error=error.message)
        raise refuse(
            "kv_incompatible",
            "this session was saved with another key, by another version, or is over this server's limit",
            suggestion="Open a new session with the whole conversation; the server's log has the reason",
        ) from error
    except KvCorruptError as error:
        log("session_corrupt", error=error.message)
        files.forget(digest)
        if not has_text:
            # The file's place on the disk is nobody's business.
            raise refuse("kv_corrupt", "this session's saved state failed its checks") from error
        return _again(context, digest, tenant)
    try:
        require_fit(fit, note.model, migrate, context.model_names)
    except Refusal:
        kept.let_go()
        raise
    session = Session(
        note.id, digest, tenant, note.model if migrate else context.facts.name, note.profile,
        note.idle_seconds, note.created, kept, context.monotonic(),
        turns=note.turns, answers=note.answers,
    )  # fmt: skip
    context.sessions.add(session)
    context.sessions.hold_to_share()
    if fit != "weights":
        session.recompute = "tokenizer"
        # In the background; a request that comes before the end takes over from there.
        session.draft = Draft(engine, context.admission, context.sessions, session)
        session.draft.aim(await engine.prepare_async(note.turns))
    elif kept.tokens == 0 and note.turns:
        session.recompute = "memory"
    return session


def _again(context: ServerContext, digest: bytes, tenant: bytes) -> Session:
    """A session with the same secret in the place of one whose state is damaged."""
    session = Session(
        new_id("sess_"), digest, tenant, context.facts.name, {}, context.config.session.idle_seconds,
        context.wall(), context.engine.keep(tenant), context.monotonic(), recompute="kv_corrupt",
    )  # fmt: skip
    context.sessions.add(session)
    return session


def require_fit(fit: Fit, model: str, migrate: str, served: Collection[str]) -> None:
    """Refuse a state of other weights unless its move was asked for and its tokens are known here.

    Raises:
        Refusal: 400.
    """
    if fit == "nothing":
        raise incompatible(f"it was made by {model}, whose tokens are not those of this model")
    if fit == "tokenizer":
        if not migrate:
            raise incompatible(f"it was made by {model}, whose weights are not those of this model")
        require_names(migrate, model, served)


def incompatible(why: str) -> Refusal:
    """400: this state cannot go on here."""
    return refuse(
        "kv_incompatible",
        f"the session's state cannot be used here: {why}",
        suggestion="Where both have one tokenizer, send X-ZLRS-KV-Migrate: A-to-B; else open a new session",
    )


def require_names(migrate: str, model: str | None, served: Collection[str]) -> None:
    """Hold `A-to-B` to the session's model and to the names served here; names may have `-to-` in them.

    Raises:
        Refusal: 400.
    """
    pieces = migrate.split(JOINT)
    for index in range(1, len(pieces)):
        source, target = JOINT.join(pieces[:index]), JOINT.join(pieces[index:])
        if target in served and (model is None or source == model):
            return
    here = ", ".join(served)
    raise incompatible(f"X-ZLRS-KV-Migrate says {migrate!r}; it is of {model or here}, and this is {here}")
