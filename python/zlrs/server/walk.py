"""What a request takes along on its way to an answer, and what its protocol and the graph offer it."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from zlrs.server import receipts

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from aiohttp import web

    from zlrs import wire
    from zlrs._core import Validation
    from zlrs.engine import Engine
    from zlrs.results import Completion, Correction, Finish, Token, Usage
    from zlrs.server.ask import Ask
    from zlrs.server.context import ServerContext
    from zlrs.server.errors import Refusal
    from zlrs.server.headers import RequestHeaders
    from zlrs.server.receipts import ModelFacts
    from zlrs.server.turns import Turn
    from zlrs.server.variants import Variant

SECOND_MS = 1000


class Dialect(Protocol):
    """One protocol's way of saying an answer. One instance a request."""

    ping: bytes
    model: str
    ask: Ask

    @property
    def protocol(self) -> wire.Protocol:
        """Which one."""

    def whole(self, completion: Completion, facts: ModelFacts, *, clamped: bool) -> dict[str, object]:
        """The body of an answer that is not streamed."""

    def opening(self, facts: ModelFacts, counted: Usage) -> bytes:
        """The events before the first piece, with exact usage."""

    def piece(self, text: str) -> bytes:
        """The event of a piece."""

    def told(self, event: Token | Correction) -> bytes:
        """The event about one token."""

    def closing(self, finish: Finish, end: Mapping[str, object] | None, *, clamped: bool) -> bytes:
        """The events after the last piece; `end` is the `zlrs` object."""

    def failure(self, refusal: Refusal, request_id: str) -> bytes:
        """The event of an error after the stream began."""


@dataclass(frozen=True)
class Walk:
    """One request on its way."""

    request: web.Request
    context: ServerContext
    dialect: Dialect
    asked: RequestHeaders
    started: float
    extra: dict[str, str]
    turn: Turn | None = None
    variant: Variant | None = None
    validation: Validation | None = None
    io_seconds: list[float] = field(default_factory=list)
    prompt_ids: list[int] = field(default_factory=list)

    @property
    def engine(self) -> Engine:
        """Who answers: the full model, or a load with a mask."""
        return self.context.engine if self.variant is None else self.variant.engine

    @property
    def facts(self) -> ModelFacts:
        """Facts of who answers."""
        return self.context.facts if self.variant is None else self.variant.facts

    @property
    def io_ms(self) -> float:
        """Spent on preparing the prompt and on writing the answer until now."""
        return sum(self.io_seconds) * SECOND_MS

    @property
    def is_aggressive(self) -> bool:
        """Whether work may be left out."""
        return self.facts.can_skip and self.asked.engine_compute == "aggressive"

    @contextmanager
    def io(self) -> Iterator[None]:
        """Count the time of a block as input or output."""
        started = self.context.monotonic()
        try:
            yield
        finally:
            self.io_seconds.append(self.context.monotonic() - started)

    def headers(self, measured: str | None = None, counted: Usage | None = None) -> dict[str, str]:
        """Our response headers."""
        config = self.context.config.headers
        ours = receipts.response_headers(
            self.facts,
            self.asked,
            enabled=config.receipts == "on",
            historical=config.historical,
            measured=measured,
            counted=counted,
        )
        historical = self.asked.historical or config.historical
        mine = self.turn.headers(historical=historical) if self.turn is not None else {}
        # A session without its id and secret would be of no use, so these are no receipts.
        return {**ours, **(self.extra if config.receipts == "on" else {}), **mine}

    def decision_headers(self) -> dict[str, str]:
        """What was decided, for an answer that is an error."""
        return dict(self.extra) if self.context.config.headers.receipts == "on" else {}

    def replay_headers(self) -> dict[str, str]:
        """Of an answer that was not computed: the model and the decision, no compute profile."""
        headers = self.headers()
        computed = {"X-ZLRS-Compute-Profile", "X-ZLRS-Zero-Active"}
        computed |= {receipts.HISTORICAL[name] for name in computed}
        kept = {name: value for name, value in headers.items() if name not in computed}
        if self.asked.historical and kept:
            kept["X-Zero-Layer-Bypass"] = "true"
        return kept

    def end_facts(self, finish: Finish) -> dict[str, object] | None:
        """The `zlrs` object, unless receipts are off."""
        if self.context.config.headers.receipts == "off":
            return None
        facts = receipts.end_facts(self.facts, self.asked, finish, self.io_ms, self.dialect.ask.ignored)
        if self.variant is not None:
            saved = self.facts.work.saved_share(finish.usage)
            facts["zero_layer"] = {"saved_share": round(saved, 6), **self.variant.receipt()}
        return facts if self.turn is None else {**facts, "session": self.turn.facts(finish)}


class Recorder(Protocol):
    """Takes what was sent, for the decision graph."""

    def settle(self, body: bytes) -> None:
        """The complete answer, as a body that is not streamed."""
