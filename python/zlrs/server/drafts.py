"""Computing ahead of a session's next request, behind everything else that runs."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

from zlrs.errors import ZlrsError
from zlrs.server.errors import Refusal
from zlrs.server.log import log
from zlrs.streams import AsyncStream
from zlrs.typing_ahead import common

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zlrs.engine import Engine
    from zlrs.server.admission import Admission
    from zlrs.server.sessions import Session, Sessions


class Draft:
    """Prefills the ids it is aimed at; aimed again, it drops what the new ids do not begin with.

    It counts as a request of low priority while it computes: where those find no place, nothing is computed
    ahead.

    Args:
        engine: Computes.
        admission: Lets it in, or not.
        sessions: Keep what is computed.
        session: Whose next request it is.
    """

    def __init__(self, engine: Engine, admission: Admission, sessions: Sessions, session: Session) -> None:
        self._engine = engine
        self._admission = admission
        self._sessions = sessions
        self._session = session
        self._stream: AsyncStream | None = None
        self._task: asyncio.Task[None] | None = None
        self._running: list[int] = []
        self._wanted: list[int] | None = None
        self.updates = 0
        self.computed_tokens = 0
        """Tokens computed for drafts, also for those that were given up."""
        self.known_before = session.kept.tokens
        """Tokens of the conversation that were kept before typing began."""

    @property
    def is_done(self) -> bool:
        """Whether nothing is being computed."""
        return self._task is None or self._task.done()

    def aim(self, ids: Sequence[int]) -> None:
        """Compute these ids. What runs is cut off only where they differ from it, else they come after it."""
        self.updates += 1
        self._wanted = list(ids)
        if self.is_done:
            self._task = asyncio.ensure_future(self._work())
        elif common(self._running, ids) < len(self._running):
            self._interrupt()

    async def _work(self) -> None:
        while self._wanted is not None:
            ids, self._wanted = self._wanted, None
            known = common(self._session.kept.ids, ids)
            if len(ids) > min(known, self._session.kept.tokens) + 1:
                await self._compute(ids)

    async def _compute(self, ids: list[int]) -> None:
        try:
            slot = self._admission.enter(batch=True)
        except Refusal as refusal:
            # The final request computes what is missing, and waits its turn like every other.
            log("draft_refused", session=self._session.id, type=refusal.error.type)
            return
        self._running = ids
        try:
            generation = self._engine.submit(ids, max_tokens=1, priority="batch", tenant=self._session.tenant)
            self._stream = AsyncStream(generation)
            async for _ in self._stream:
                pass
        except ZlrsError as error:
            # A full queue, no memory: the final request computes what is missing.
            log("draft_failed", session=self._session.id, type=error.type)
        finally:
            slot.release()
            stream, self._stream = self._stream, None
            if stream is not None and stream.has_begun:
                # Also of one that was cut off: what it has computed is there.
                with contextlib.suppress(ZlrsError):
                    self._sessions.keep(self._session, ids)
                    self.computed_tokens += max(0, self._session.kept.tokens - stream.cached_tokens)

    def _interrupt(self) -> None:
        if self._stream is not None:
            self._stream.cancel()

    def cancel(self) -> None:
        """Tell what runs to end; `stop` waits for it."""
        self._wanted = None
        self._interrupt()

    async def stop(self) -> None:
        """End what runs, within a layer's time, and keep what it has computed."""
        self.cancel()
        if self._task is not None and not self._task.done():
            await asyncio.wait({self._task})

    async def settle(self) -> None:
        """Wait until what is wanted is computed."""
        if self._task is not None:
            await asyncio.wait({self._task})

    def report(self, cached_tokens: int, first_token_ms: float) -> dict[str, object]:
        """What typing ahead was worth to the final request.

        Args:
            cached_tokens: Tokens of its prompt that were there.
            first_token_ms: Its first token after it was sent.
        """
        useful = max(0, cached_tokens - self.known_before)
        return {
            "updates": self.updates,
            "computed_tokens": self.computed_tokens,
            "wasted_tokens": max(0, self.computed_tokens - useful),
            "first_token_ms": round(first_token_ms, 1),
        }
