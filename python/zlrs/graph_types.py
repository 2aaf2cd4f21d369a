"""What a decision graph says: decisions, and the evidence behind them. `zlrs.graph` exports all of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

import msgspec

if TYPE_CHECKING:
    from collections.abc import Sequence


class PoolClass(msgspec.Struct, frozen=True):
    """Asks whose errors are counted together."""

    route: str
    kind: str
    language: str
    tenant: str
    upstream: str
    model: str


class PoolProgress(msgspec.Struct, frozen=True):
    """How far a class has come: `shadow`, `canary`, `ramp_quarter`, `ramp_half` or `full`."""

    step: str
    clean: int


class PoolEvidence(msgspec.Struct, frozen=True):
    """What a class has shown since its count began, and ever."""

    trials: int
    wrong: int
    clean_run: int
    alarm: float
    progress: PoolProgress
    since_ms: int
    total_trials: int
    causes: tuple[int, int, int, int]
    """Wrong ones ever: merged wordings, stale answers, unstable answers, not known."""
    restarts: int
    demotions: int


class Pool(msgspec.Struct, frozen=True):
    """A class with its bound on wrong answers per hit, which holds at every moment with 95 %."""

    pool: str
    class_: PoolClass = msgspec.field(name="class")
    bound: float
    evidence: PoolEvidence


class Decision(Protocol):
    """What the graph decided about one request."""

    @property
    def kind(self) -> str:
        """`hit`, `miss` or `skipped`."""

    @property
    def route(self) -> str:
        """`same`, `canonical` or `edge`; empty for a skipped request."""

    @property
    def reason(self) -> str:
        """Why not; empty for a hit."""

    @property
    def node(self) -> str:
        """Name of the node, 64 hexadecimal digits; equal for requests that may wait for one upstream call."""

    @property
    def protocol(self) -> str:
        """`messages`, `chat` or `other`."""

    @property
    def stream(self) -> bool:
        """Whether an event stream is asked for."""

    @property
    def model(self) -> str:
        """The model asked for; empty where the request is not understood."""

    @property
    def header(self) -> str:
        """The value of `X-ZLRS-Decision`."""

    @property
    def audit(self) -> str:
        """Id of the audit record; empty without an audit log."""

    @property
    def content_type(self) -> str:
        """The media type of what `replay` gives."""

    @property
    def recheck(self) -> bool:
        """For a hit: ask upstream again, not on the client's time, and settle its answer with this one."""

    @property
    def age_ms(self) -> int | None:
        """For a hit, how old the stored answer is."""

    def replay(self) -> list[bytes]:
        """For a hit, one JSON body or one piece per event, with fresh ids; empty for anything else."""


class PlainAnswer(NamedTuple):
    """A decision about a request that was given as the bytes of HTTP."""

    decision: Decision | None
    """None where something has to be read first, or the host is not known."""
    sent: bytes | None
    """For a hit that needs no check upstream, the whole answer: head and body."""
    mark: bytes | None
    """Equal for answers with the same content to requests with the same meaning."""


class Graph(Protocol):
    """A decision graph as its callers use it; `zlrs.graph.DecisionGraph` is one."""

    def decide(
        self,
        method: str,
        path: str,
        query: str,
        headers: Sequence[tuple[bytes, bytes]],
        body: bytes,
        upstream: str,
        now_ms: int,
    ) -> Decision:
        """Look at a request."""

    def decide_now(
        self,
        method: str,
        path: str,
        query: str,
        headers: Sequence[tuple[bytes, bytes]],
        body: bytes,
        upstream: str,
        now_ms: int,
    ) -> Decision | None:
        """`decide` without a wait; None where that is not possible."""

    def settle(
        self,
        decision: Decision,
        status: int,
        headers: Sequence[tuple[bytes, bytes]],
        body: bytes,
        complete: bool,
        now_ms: int,
    ) -> str:
        """Learn from the answer; `stored`, or why not."""

    def note_changes(self, decision: Decision, changes: Sequence[object]) -> None:
        """Add to the audit log what was changed in a request; no text of it."""

    def state(self) -> str:
        """`ready`, or `bypass: ` and why."""

    def stats(self) -> dict[str, int]:
        """Numbers for metrics."""

    def notices(self) -> list[str]:
        """Lines for the operator since the last call."""

    def flush(self) -> None:
        """Write what is queued."""

    def close(self) -> None:
        """Flush and close."""
