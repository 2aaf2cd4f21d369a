"""Sessions: who may use which conversation's kept state, and how long.

A session is known by a public id, which may stand in logs and paths, and by a secret of 256 bits, which its
client sends. Only the secret's SHA-256 is kept. A session belongs to the credential that opened it; nobody
else gets at it, with the secret or without.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import secrets
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING

from zlrs.server.errors import refuse, retry_headers
from zlrs.server.ids import new_id

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from zlrs.config.model import SessionSettings
    from zlrs.kept import Kept
    from zlrs.server.drafts import Draft
    from zlrs.types import Message

SECRET_PREFIX = "zs_"  # noqa: S105 - how a secret begins, not one
SECRET_BYTES = 32
RETRY_SECONDS = 1


class Life(Enum):
    """Where a session is in its life."""

    OPEN = "open"
    CLOSING = "closing"
    OVER = "over"


@dataclass(eq=False)
class Session:
    """One conversation of one credential. Used on the event loop only.

    Attributes:
        id: Public.
        digest: SHA-256 of the secret.
        tenant: Keyed hash of the credential it belongs to.
        model: Name of the model it was opened with.
        profile: The compute headers that are fixed for its life.
        idle_seconds: It ends when it was not used for so long.
        created: Wall clock, seconds since 1970.
        kept: What is computed of it.
        turns: What was said, answers included.
        used: Clock of the last use.
        ends: When its grace is over, once it is closing.
        answering: An answer of it is being made.
        recompute: Why its state was computed again, until the next answer has said so.
        draft: What is being typed.
        over: Set when it has ended.
    """

    id: str
    digest: bytes
    tenant: bytes
    model: str
    profile: Mapping[str, str]
    idle_seconds: float
    created: float
    kept: Kept
    used: float
    turns: tuple[Message, ...] = ()
    answers: int = 0
    life: Life = Life.OPEN
    ends: float = 0.0
    answering: bool = False
    recompute: str | None = None
    draft: Draft | None = None
    over: asyncio.Event = field(default_factory=asyncio.Event)

    def is_open(self) -> bool:
        """Whether it has neither ended nor been destroyed."""
        return self.life is Life.OPEN

    def expires(self) -> float:
        """Clock at which it ends if nobody uses it."""
        return self.ends if self.life is Life.CLOSING else self.used + self.idle_seconds

    def state_vector(self) -> str:
        """Digest of the tokens whose state is kept: 32 hexadecimal digits."""
        path = b"".join(token.to_bytes(4, "little") for token in self.kept.ids)
        return hashlib.sha256(self.tenant + path).hexdigest()[:32]


def digest_of(secret: str) -> bytes:
    """What is kept of a secret."""
    return hashlib.sha256(secret.encode("utf-8", "surrogateescape")).digest()


def new_secret() -> str:
    """A secret of 256 random bits."""
    return SECRET_PREFIX + secrets.token_hex(SECRET_BYTES)


class Sessions:
    """All sessions of a server.

    Args:
        settings: Limits and times.
        monotonic: Clock for idle times, seconds.
        kv_tokens: Tokens that the KV memory holds.
    """

    def __init__(
        self, settings: SessionSettings, monotonic: Callable[[], float], kv_tokens: Callable[[], int]
    ) -> None:
        self.settings = settings
        self._monotonic = monotonic
        self._kv_tokens = kv_tokens
        self._by_digest: dict[bytes, Session] = {}

    def __len__(self) -> int:
        return len(self._by_digest)

    def all(self) -> list[Session]:
        """Those that have not ended."""
        return list(self._by_digest.values())

    @property
    def kept_tokens(self) -> int:
        """Tokens kept for all of them."""
        return sum(session.kept.tokens for session in self._by_digest.values())

    def create(
        self,
        secret: str,
        tenant: bytes,
        kept: Kept,
        *,
        model: str,
        profile: Mapping[str, str],
        created: float,
    ) -> Session:
        """Open a session with a new id.

        Raises:
            Refusal: 429 when there are as many as may be.
        """
        session = Session(
            new_id("sess_"), digest_of(secret), tenant, model, dict(profile), self.settings.idle_seconds,
            created, kept, self._monotonic(),
        )  # fmt: skip
        self.add(session)
        return session

    def add(self, session: Session) -> None:
        """Take a session in, opened or restored.

        Raises:
            Refusal: 429 when there are as many as may be.
        """
        if len(self._by_digest) >= self.settings.limit:
            session.kept.let_go()
            raise refuse(
                "rate_limit_error",
                f"{len(self._by_digest)} sessions are open, the limit is {self.settings.limit}",
                suggestion="Send the request without a session, or end one with DELETE /v1/sessions/{id}",
                headers=retry_headers(RETRY_SECONDS),
            )
        self._by_digest[session.digest] = session

    def find(self, digest: bytes) -> Session | None:
        """The session with a secret of this digest, if it has not ended."""
        self.sweep()
        return self._by_digest.get(digest)

    def use(self, session: Session, tenant: bytes) -> None:
        """Note a use, by its owner; a session in its grace is open again.

        Raises:
            Refusal: 403 for another credential; 404 when it has ended since it was found.
        """
        require_owner(session, tenant)
        if session.life is Life.OVER:
            raise refuse("session_expired", "the session has ended meanwhile")
        session.used = self._monotonic()
        session.life = Life.OPEN

    def begin_answer(self, session: Session) -> None:
        """One answer at a time: two would each leave the other's turn out of the conversation.

        Raises:
            Refusal: 409 while there is one.
        """
        if session.answering:
            raise refuse(
                "conflict_error",
                f"session {session.id} is answering another request; it makes one answer at a time",
                suggestion="Wait for the answer, or open a second session",
                headers=retry_headers(RETRY_SECONDS),
            )
        session.answering = True

    def end_answer(self, session: Session) -> None:
        """The answer is made, failed, or its client has gone."""
        session.answering = False
        session.used = self._monotonic()
        if session.life is Life.OVER:
            session.kept.let_go()

    def keep(self, session: Session, ids: list[int]) -> None:
        """Keep what is computed of these ids, within what sessions may take of the KV memory together."""
        if session.life is Life.OVER:
            return
        session.kept.keep(ids)
        self.hold_to_share()

    def hold_to_share(self) -> None:
        """Let go of the states that were not used for longest while all take more than their share."""
        limit = int(self._kv_tokens() * self.settings.kv_share)
        total = self.kept_tokens
        for other in sorted(self._by_digest.values(), key=lambda one: one.used):
            if total <= limit:
                return
            total -= other.kept.tokens
            other.kept.let_go()

    def close(self, session: Session) -> float:
        """End a session softly: it goes after the grace, or lives on when its client comes back before.

        Returns:
            Seconds until then.
        """
        now = self._monotonic()
        if session.life is Life.OPEN:
            session.life = Life.CLOSING
            session.ends = now + self.settings.grace_seconds
        return max(0.0, session.ends - now)

    def end(self, session: Session) -> None:
        """End a session at once."""
        session.life = Life.OVER
        self._by_digest.pop(session.digest, None)
        if session.draft is not None:
            session.draft.cancel()
        if not session.answering:
            session.kept.let_go()
        session.over.set()

    def sweep(self) -> list[Session]:
        """End what was not used for too long, and what has had its grace; returns those.

        While an answer is made a session is in use; once destroyed it ends after its grace all the same.
        """
        now = self._monotonic()
        ended = [
            session
            for session in self._by_digest.values()
            if now >= session.expires() and (session.life is Life.CLOSING or not session.answering)
        ]
        for session in ended:
            self.end(session)
        return ended


def require_owner(session: Session, tenant: bytes) -> None:
    """Refuse anyone but the credential that opened the session.

    Raises:
        Refusal: 403.
    """
    if not hmac.compare_digest(session.tenant, tenant):
        raise refuse("session_forbidden", "this session belongs to another credential")
