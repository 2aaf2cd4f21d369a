"""One request in a session: find or open it, answer in it, keep what was computed."""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import replace
from typing import TYPE_CHECKING

from zlrs.server.errors import invalid, refuse
from zlrs.server.session_lookup import find_session
from zlrs.server.sessions import Life, new_secret
from zlrs.types import Message
from zlrs.wire import message_event

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import TracebackType

    from typing_extensions import Self

    from zlrs.results import Finish
    from zlrs.server.ask import Ask
    from zlrs.server.context import ServerContext
    from zlrs.server.drafts import Draft
    from zlrs.server.headers import RequestHeaders
    from zlrs.server.sessions import Session
    from zlrs.streams import AsyncStream
    from zlrs.wire import Protocol

CREATE = "create"
HEADER = "X-ZLRS-Session"
HISTORICAL_HEADER = "X-Anthropic-Session"
VECTOR_HEADER = "X-ZLRS-State-Vector"


class Turn:
    """A session while one request is answered in it: entered before the work, left whatever becomes of it."""

    def __init__(self, context: ServerContext, session: Session, *, secret: str | None, append: bool) -> None:
        self._sessions = context.sessions
        self._append = append
        self._secret = secret
        self._ids: list[int] = []
        self._turns: tuple[Message, ...] = ()
        self._draft: Draft | None = None
        self._draft_report: dict[str, object] | None = None
        self._cached_tokens = 0
        self._recompute: str | None = None
        self.session = session

    def conversation(self, ask: Ask) -> Ask:
        """The request with the whole conversation.

        Raises:
            Refusal: 400 for another system prompt than the session began with.
        """
        turns = ask.turns
        if self._append:
            before = self.session.turns
            if before and turns and turns[0].role == "system" == before[0].role:
                if turns[0] != before[0]:
                    raise invalid(
                        "the system prompt of a session is fixed by its first request",
                        suggestion="Leave it out, or open a new session",
                    )
                turns = turns[1:]
            turns = (*before, *turns)
        self._turns = turns
        return replace(ask, turns=turns)

    async def begin(self, ids: Sequence[int]) -> None:
        """The prompt's ids are known: what was computed ahead is settled before they are queued."""
        self._ids = list(ids)
        self._recompute, self.session.recompute = self.session.recompute, None
        self._draft, self.session.draft = self.session.draft, None
        if self._draft is not None:
            await self._draft.stop()

    def answered(self, stream: AsyncStream) -> None:
        """The answer is complete: it becomes part of the conversation, and its state is kept."""
        completion = stream.completion
        *earlier, last = self._turns
        if last.role == "assistant":
            self.session.turns = (*earlier, Message("assistant", last.content + completion.text))
        else:
            self.session.turns = (*self._turns, Message("assistant", completion.text))
        self.session.answers += 1
        self._cached_tokens = completion.usage.cached_tokens
        if self._draft is not None:
            self._draft_report = self._draft.report(self._cached_tokens, completion.timings.first_token_ms)
        self.session.kept.compute = completion.compute
        self._sessions.keep(self.session, [*self._ids, *completion.token_ids])

    def headers(self, *, historical: bool) -> dict[str, str]:
        """Public id, and the secret of a new session."""
        value = self.session.id if self._secret is None else f"{self.session.id};secret={self._secret}"
        return {
            HISTORICAL_HEADER if historical else HEADER: value,
            VECTOR_HEADER: self.session.state_vector(),
        }

    def facts(self, finish: Finish) -> dict[str, object]:
        """The session's part of the `zlrs` object."""
        facts: dict[str, object] = {
            "id": self.session.id,
            "answers": self.session.answers,
            "state_vector": self.session.state_vector(),
            "cached_tokens": finish.usage.cached_tokens,
            "kept_tokens": self.session.kept.tokens,
        }
        if self.session.life is Life.OVER:
            facts["expired"] = True
        if self._recompute is not None:
            facts["recompute"] = self._recompute
        if self._draft_report is not None:
            facts["draft"] = self._draft_report
        return facts

    def farewell(self, protocol: Protocol) -> bytes:
        """The event that tells a stream that its session ended meanwhile; nothing while it lives.

        Chat has no events: there only the `zlrs` object tells.
        """
        if self.session.life is not Life.OVER or protocol == "chat":
            return b""
        return message_event(expired_event(self.session))

    def __enter__(self) -> Self:
        self._sessions.begin_answer(self.session)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._sessions.end_answer(self.session)
        if self._secret is None or error is None:
            return
        is_refused = isinstance(error, Exception) and not isinstance(error, ConnectionError)
        if is_refused or not self.session.answers:
            # Its client was told an error and never the secret, or has gone before the first answer was
            # whole: there is nothing yet to go on with.
            self._sessions.end(self.session)


def expired_event(session: Session) -> dict[str, object]:
    """What is told of a session that has ended."""
    return {"type": "session_expired", "session": session.id}


async def open_turn(context: ServerContext, asked: RequestHeaders, ask: Ask, tenant: bytes) -> Turn | None:
    """The session a request asks for; None without one.

    Raises:
        Refusal: 404 when the session is over or was never there, 403 for another credential, 409 when its
            saved state is damaged, 400 when headers contradict it.
    """
    given = _agreed(asked.session, ask.session)
    if not given:
        if ask.append or asked.signature or asked.migrate:
            raise invalid(
                "appending, signatures and migration need a session",
                suggestion="Send X-ZLRS-Session, or `zlrs.session` in the body",
            )
        return None
    if given == CREATE:
        if asked.signature or asked.migrate:
            raise invalid("a signature and a migration need a session that is there already")
        secret = new_secret()
        session = context.sessions.create(
            secret, tenant, context.engine.keep(tenant), model=context.facts.name,
            profile=asked.profile, created=context.wall(),
        )  # fmt: skip
        return Turn(context, session, secret=secret, append=ask.append)
    session = await find_session(context, given, tenant, migrate=asked.migrate, has_text=not ask.append)
    require_signature(asked.signature, ask.user, session, given)
    require_profile(asked, session)
    context.sessions.use(session, tenant)
    return Turn(context, session, secret=None, append=ask.append)


def _agreed(header: str, body: str | None) -> str:
    if header and body and header != body:
        raise refuse(
            "compute_profile_mismatch",
            "the X-ZLRS-Session header and the body's `zlrs.session` name different sessions",
            suggestion="Send one of them",
        )
    return header or body or ""


def require_profile(asked: RequestHeaders, session: Session) -> None:
    """Hold later requests to the compute headers of the first; those that are left out stay as they were.

    Raises:
        Refusal: 400.
    """
    for name, fixed in session.profile.items():
        if name in asked.given and asked.values[name] != fixed:
            raise refuse(
                "compute_profile_mismatch",
                f"{name} is {asked.values[name]!r}, the session's first request had {fixed!r}",
            )


def require_signature(signature: str, user: str | None, session: Session, secret: str) -> None:
    """Hold a client's own bookkeeping of user and session to ours.

    Raises:
        Refusal: 403; 400 when the request names no user.
    """
    if not signature:
        return
    if user is None:
        raise invalid(
            "X-ZLRS-Context-Signature needs the user's name",
            suggestion="Send `metadata.user_id` (Messages) or `user` (Chat)",
        )
    signed = (user + session.id).encode()
    plain = hashlib.sha256(signed).hexdigest()
    keyed = hmac.new(secret.encode(), signed, hashlib.sha256).hexdigest()
    given = signature.lower()
    if not hmac.compare_digest(given, plain) and not hmac.compare_digest(given, keyed):
        raise refuse(
            "session_forbidden",
            "X-ZLRS-Context-Signature is not that of this user and this session",
            suggestion="Sign the user's name followed by the session's public id",
        )
