"""The decision graph: answers that are already known, served again with a receipt.

It stands alone: put it in front of whatever answers Messages or Chat requests.

    >>> import json, time
    >>> from zlrs.graph import DecisionGraph
    >>> graph = DecisionGraph(None)  # in memory; give a directory to keep it
    >>> ask = {"model": "m", "max_tokens": 9, "temperature": 0,
    ...        "messages": [{"role": "user", "content": "Hi"}]}
    >>> answer = {"id": "1", "type": "message", "role": "assistant", "model": "m", "stop_sequence": None,
    ...           "content": [{"type": "text", "text": "Hello!"}], "stop_reason": "end_turn",
    ...           "usage": {"input_tokens": 1, "output_tokens": 2}}
    >>> request = ("POST", "/v1/messages", "", [(b"x-api-key", b"k")], json.dumps(ask).encode(), "upstream")
    >>> def now_ms():
    ...     return time.time_ns() // 1_000_000
    >>> decision = graph.decide(*request, now_ms())
    >>> decision.kind
    'miss'
    >>> head = [(b"content-type", b"application/json")]
    >>> graph.settle(decision, 200, head, json.dumps(answer).encode(), True, now_ms())
    'stored'
    >>> again = graph.decide(*request, now_ms())
    >>> again.kind, json.loads(b"".join(again.replay()))["content"][0]["text"]
    ('hit', 'Hello!')
    >>> graph.close()
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import msgspec

from zlrs import _core
from zlrs.errors import from_core
from zlrs.factors import configured as configured_factors
from zlrs.graph_files import GraphFiles, StoredEntry, VerifyReport, repeat
from zlrs.graph_settings import GraphSettings, RemoteStore, configured_remote
from zlrs.graph_types import Decision, Graph, PlainAnswer, Pool, PoolClass, PoolEvidence, PoolProgress
from zlrs.judge import configured as configured_judge

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import TracebackType

    from typing_extensions import Self

    from zlrs.config import FactorSettings
    from zlrs.config import GraphSettings as GraphSection
    from zlrs.factors import Factors
    from zlrs.judge import Judge

__all__ = [
    "MEMORY",
    "Decision",
    "DecisionGraph",
    "Graph",
    "GraphFiles",
    "GraphSettings",
    "PlainAnswer",
    "Pool",
    "PoolClass",
    "PoolEvidence",
    "PoolProgress",
    "PurgeBy",
    "RemoteStore",
    "StoredEntry",
    "VerifyReport",
    "configured_remote",
    "default_directory",
    "follow_load",
    "repeat",
]

MEMORY = "memory"
"""The path that means no path: everything stays in this process."""

PurgeBy = Literal[
    "all", "tenant", "scope", "node", "entry", "model", "entity", "factor", "written_before", "expired"
]


class DecisionGraph:
    """A decision graph over a store. Safe to use from several threads; not after a fork.

    A store that cannot be used is no error: every decision is then `skipped` and `state()` says why.

    Args:
        path: A directory of the graph's own, made with mode 0700; None keeps everything in memory.
        settings: See `GraphSettings`.
        remote: A Redis or Valkey behind the store. Machines that share one share the key file `graph.key`.
        factors: Facts that are part of every scope; the graph closes them.

    Raises:
        ConfigurationError: A setting is out of its range.
    """

    def __init__(
        self,
        path: str | os.PathLike[str] | None,
        settings: GraphSettings | None = None,
        remote: RemoteStore | None = None,
        *,
        factors: Factors | None = None,
    ) -> None:
        self.settings = settings or GraphSettings()
        self.load: Callable[[], float] | None = None
        """How busy what answers is, 0 to 1: the busier, the further the edge route explores.

        What may be served does not depend on it.
        """
        self._factors = factors
        given = None
        if remote is not None:
            given = (
                remote.addresses,
                remote.is_cluster,
                remote.deadline_ms,
                remote.prefix,
                remote.username,
                remote.password,
            )
        try:
            self._core = _core.Graph(path, msgspec.json.encode(self.settings), given)
        except _core.CoreError as error:
            raise from_core(error) from None

    @classmethod
    def open(
        cls,
        section: GraphSection,
        *,
        credential_check: bool = True,
        factors: Sequence[FactorSettings] = (),
    ) -> Self:
        """Open the graph that a configuration names.

        Args:
            section: The `[graph]` table. `path` is a directory, or `memory`; absent means
                `$ZLRS_HOME/graph`, else `$XDG_DATA_HOME/zlrs/graph`.
            credential_check: Off where whoever opens the graph is the upstream itself: then nothing is
                asked again either.
            factors: The `[[factor]]` tables.

        Raises:
            ConfigurationError: A judge or a factor's provider cannot be used.
        """
        path = section.path or default_directory()
        settings = GraphSettings(
            ttl_s=max(1, round(section.ttl_seconds)),
            absent_temperature="eligible" if section.absent_temperature == "eligible" else "not_eligible",
            credential_check=credential_check,
            recheck=credential_check,
            canonical=section.canonical,
            edge=section.edge,
            preset=section.preset,
            built_in_patterns=section.built_in_patterns,
            patterns=section.patterns,
            patterns_off=section.patterns_off,
        )
        remote = configured_remote(section)
        judge = configured_judge(section)
        known = configured_factors(factors)
        try:
            graph = cls(None if path == MEMORY else path, settings, remote, factors=known)
        except BaseException:
            if known is not None:
                known.close()
            raise
        if judge is not None:
            graph.appoint(judge.judge, name=judge.name, false_equivalent=section.judge_error)
        return graph

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
        """Decide about a request; waits for the store a few milliseconds at most.

        Args:
            method: The request method.
            path: The path as it was sent, without the query.
            query: The query as it was sent, without the question mark.
            headers: All request headers, in order.
            body: The body, without content encoding.
            upstream: The upstream's name or base URL, from configuration, never from a request.
            now_ms: Unix time in milliseconds.
        """
        if self.load is not None and self.settings.edge != "off":
            self._core.note_load(self.load())
        if self._factors is None:
            return self._core.decide(method, path, query, headers, body, upstream, now_ms)
        known, unknown = self._factors.current()
        return self._core.decide(method, path, query, headers, body, upstream, now_ms, known, unknown)

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
        """`decide` for an event loop: None where something has to be read first; then ask from a thread."""
        if self._factors is None:
            return self._core.decide_now(method, path, query, headers, body, upstream, now_ms)
        known, unknown = self._factors.current()
        return self._core.decide_now(method, path, query, headers, body, upstream, now_ms, known, unknown)

    def answer_plain(
        self, data: bytes, hosts: Sequence[bytes], upstream: str, now_ms: int, date: str, *, receipts: bool
    ) -> PlainAnswer | None:
        """`decide_now` for the bytes of one whole HTTP request, in the plainest form only; else None.

        Args:
            data: Head and body.
            hosts: Values of `Host` that are served.
            upstream: As for `decide`.
            now_ms: Unix time in milliseconds.
            date: The value of the answer's `Date`.
            receipts: Whether the answer says what was decided.
        """
        if self._factors is not None:
            return None
        found = _core.answer_plain(self._core, data, hosts, upstream, now_ms, date, receipts)
        return None if found is None else PlainAnswer(*found)

    def settle(
        self,
        decision: Decision,
        status: int,
        headers: Sequence[tuple[bytes, bytes]],
        body: bytes,
        complete: bool,
        now_ms: int,
    ) -> str:
        """Take in the upstream's answer: `stored`, or the reason why it is not kept, or how a re-check ended.

        Call it for every answer to a forwarded request, from a thread: it blocks up to a second.

        Args:
            decision: What this graph decided about the request.
            status: The answer's status; it says whether the credential is good.
            headers: All headers of the answer, in order.
            body: The body, without content encoding.
            complete: Whether the upstream ended the answer properly.
            now_ms: Unix time in milliseconds when it ended.
        """
        return self._core.settle(_own(decision), status, headers, body, complete, now_ms)

    def appoint(self, judge: Judge | None, *, name: str = "", false_equivalent: float | None = None) -> None:
        """Appoint a judge for answers that the rules cannot compare; None dismisses it.

        It is asked in the threads that settle, twice a comparison. See `zlrs.judge`.

        Args:
            judge: A callable of the ask and two answers.
            name: Its name and version; evidence gathered with another judge does not count.
            false_equivalent: Its measured error; it enters every bound the judge takes part in. None, or more
                than 0.05: it is asked and recorded, and changes nothing.
        """
        self._core.appoint(judge, name, false_equivalent)

    def withdraw(self, decision: Decision, now_ms: int, reason: str) -> None:
        """Make sure that the stored answer to this request is never served again; durable on return."""
        try:
            self._core.withdraw(_own(decision), now_ms, reason)
        except _core.CoreError as error:
            raise from_core(error) from None

    def note_changes(self, decision: Decision, changes: Sequence[object]) -> None:
        """Add to the audit log what was changed in a request before it was decided about.

        Args:
            decision: What this graph decided about the changed request.
            changes: For each change its path, what was done and how often; no text of the request.
        """
        self._core.note_changes(_own(decision), msgspec.json.encode(changes).decode())

    def purge(self, what: PurgeBy = "all", which: str = "") -> int:
        """Remove entries; returns how many. With an answer goes what the *canonical* route keeps of it.

        Answers that were asked for before, and come later, are refused. `stats()["untold"]` is how many
        purges and withdrawals the remote store, where there is one, has not been told of yet.

        Args:
            what: By what they are chosen.
            which: The name (64 hexadecimal digits); a model's name; a text that names entities ("order
                1042"): entries whose ask names any of them go; `name=value` of a factor; Unix milliseconds
                for the last two.

        Raises:
            ValueError: `which` is not what `what` needs.
        """
        try:
            return self._core.purge(what, which)
        except _core.CoreError as error:
            raise from_core(error) from None

    def import_entry(self, line: str, now_ms: int, trusted: str = "") -> str:
        """Take in a line of `GraphFiles.export`: `stored`, or why not.

        Args:
            line: One JSON text.
            now_ms: Unix time in milliseconds.
            trusted: The public key that must have signed it; this graph's own by default.

        Raises:
            ValueError: `trusted` is not a public key.
        """
        try:
            return self._core.import_entry(line, trusted, now_ms)
        except _core.CoreError as error:
            raise from_core(error) from None

    def flush(self) -> None:
        """Wait until everything settled before is committed and the audit log is signed."""
        try:
            self._core.flush()
        except _core.CoreError as error:
            raise from_core(error) from None

    def state(self) -> str:
        """`ready`, or `bypass: ` and the reason."""
        return self._core.state()

    def stats(self) -> dict[str, int]:
        """Counters since opening and present sizes."""
        return self._core.stats()

    def pools(self) -> list[Pool]:
        """What comparisons have shown, by class, with the bound of each."""
        return msgspec.json.decode(self._core.pools(), type=list[Pool])

    def notices(self) -> list[str]:
        """Lines for the operator's log since the last call: damage found, a store out of service."""
        return self._core.notices()

    def close(self) -> None:
        """Commit and sign what waits, and stop the threads. Later decisions are skipped."""
        if self._factors is not None:
            self._factors.close()
        self._core.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def default_directory() -> Path:
    """`$ZLRS_HOME/graph` when `ZLRS_HOME` is set, else `$XDG_DATA_HOME/zlrs/graph` (`~/.local/share`)."""
    home = os.environ.get("ZLRS_HOME")
    if home:
        return Path(home) / "graph"
    data = os.environ.get("XDG_DATA_HOME")
    return (Path(data) if data else Path.home() / ".local" / "share") / "zlrs" / "graph"


def follow_load(graph: Graph, load: Callable[[], float]) -> None:
    """Let a decision graph know how busy what answers is; another graph does not care."""
    if isinstance(graph, DecisionGraph):
        graph.load = load


def _own(decision: Decision) -> _core.Decision:
    if not isinstance(decision, _core.Decision):
        raise TypeError("the decision is not of this graph")
    return decision
