"""What all handlers share: settings, the loaded engine, counters, and the state of the process."""

from __future__ import annotations

import asyncio
import difflib
import time
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING

from aiohttp import web

from zlrs.server.access import HostNames, Keys, Tenants
from zlrs.server.admission import Admission
from zlrs.server.errors import overloaded, refuse
from zlrs.server.fill import Fills
from zlrs.server.metrics import Metrics
from zlrs.server.misfires import Reruns
from zlrs.server.sessions import Sessions
from zlrs.server.validation import configured
from zlrs.server.validation_heads import ValidationHeads
from zlrs.server.variants import Variants

if TYPE_CHECKING:
    from collections.abc import Callable

    from zlrs.config import Config
    from zlrs.engine import Engine
    from zlrs.server.graph_front import GraphFront
    from zlrs.server.receipts import ModelFacts
    from zlrs.server.state_files import StateFiles
    from zlrs.streams import AsyncStream

LOADING_RETRY_SECONDS = 2
ANY_MODEL = "*"


class State(Enum):
    """Where the process is in its life."""

    STARTING = "starting"
    READY = "ready"
    DRAINING = "draining"
    FAILED = "failed"


@dataclass
class ServerContext:
    """One server. Used on its event loop only.

    Attributes:
        config: All settings.
        keys: Accepted API keys.
        tenants: Tells callers apart for the engine.
        monotonic: Clock for durations, seconds.
        wall: Clock for dates, seconds since 1970.
        streams: Answers the engine is working on.
        state_files: Saved sessions, where they are saved.
        restoring: Held while a session is read from disk.
        verifying: Held while `POST /verify` compares.
        variants: Loads with a mask beside the full model.
    """

    config: Config
    keys: Keys = field(default_factory=lambda: Keys(()))
    tenants: Tenants = field(default_factory=Tenants)
    monotonic: Callable[[], float] = time.monotonic
    wall: Callable[[], float] = time.time
    state: State = State.STARTING
    streams: set[AsyncStream] = field(default_factory=set)
    metrics: Metrics = field(default_factory=Metrics)
    fills: Fills = field(default_factory=Fills)
    graph: GraphFront | None = None
    state_files: StateFiles | None = None
    restoring: asyncio.Lock = field(default_factory=asyncio.Lock)
    verifying: asyncio.Lock = field(default_factory=asyncio.Lock)
    variants: Variants = field(default_factory=lambda: Variants((), 0.0))
    loaded_at: float = 0.0
    loading_share: float = 0.0
    _engine: Engine | None = None
    _facts: ModelFacts | None = None

    def __post_init__(self) -> None:
        server = self.config.server
        self.hosts = HostNames(server.host, server.allowed_hosts)
        self.admission = Admission(server.queue_limit, self.monotonic)
        self.sessions = Sessions(self.config.session, self.monotonic, lambda: self.facts.kv_tokens)
        self.validation = configured(self.config.ring)
        self.validation_heads = ValidationHeads(self.monotonic)
        # Counting takes no place from answers, and has as many of its own.
        self.reruns = Reruns(self.config.zero_layer.sample, self.metrics)
        self.counting = Admission(server.queue_limit, self.monotonic)

    def engine_loaded(self, engine: Engine, facts: ModelFacts) -> None:
        """The model is there: answer requests from now on."""
        self._facts = facts
        self._engine = engine
        self.loaded_at = self.wall()
        if self.state is State.STARTING:
            self.state = State.READY

    @property
    def loaded_engine(self) -> Engine | None:
        """The engine in any state, for closing it."""
        return self._engine

    @property
    def engine(self) -> Engine:
        """The loaded engine.

        Raises:
            Refusal: 529 with `retry-after` while it loads or the process ends.
        """
        if self._engine is None or self.state is not State.READY:
            what = {
                State.STARTING: "the model is still being loaded",
                State.DRAINING: "the server is shutting down",
            }.get(self.state, "the model could not be loaded; the server's log has the reason")
            raise overloaded(what, retry_after_seconds=LOADING_RETRY_SECONDS)
        return self._engine

    @property
    def facts(self) -> ModelFacts:
        """Facts of the loaded model.

        Raises:
            Refusal: 529 while there is none.
        """
        if self._facts is None:
            raise overloaded("the model is still being loaded", retry_after_seconds=LOADING_RETRY_SECONDS)
        return self._facts

    @property
    def model_names(self) -> tuple[str, ...]:
        """Names a request may give: the model's own first, then the configured aliases."""
        return (self.facts.name, *(name for name in self.config.server.model_aliases if name != ANY_MODEL))

    def require_model(self, name: str) -> None:
        """Refuse a model that is not served here.

        Raises:
            Refusal: 404 naming what is served and the nearest name.
        """
        names = self.model_names
        if name in names or ANY_MODEL in self.config.server.model_aliases:
            return
        near = difflib.get_close_matches(name, names, n=1)
        meant = f"Did you mean `{near[0]}`? " if near else ""
        raise refuse(
            "model_not_found",
            f"model: {name[:80]!r} is not served here; this server answers as {', '.join(names)}",
            param="model",
            suggestion=f"{meant}Further names can be allowed with `--alias NAME` (`--alias '*'`: any)",
        )


CONTEXT: web.AppKey[ServerContext] = web.AppKey("zlrs_context", ServerContext)
REQUEST_ID: web.RequestKey[str] = web.RequestKey("zlrs_request_id", str)
