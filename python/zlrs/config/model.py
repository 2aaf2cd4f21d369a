"""Every setting there is: its name, type, range, unit and default.

This tree is the one source for parsing, `zlrs config show`, the JSON schema and the reference pages.
Units are part of the names: `_seconds`, `_bytes`, `_tokens`, `_ms`.
"""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, field

from zlrs.config.graph import FactorSettings, GraphSettings
from zlrs.config.proxy import (
    CaptureSettings,
    PriceSettings,
    ProxySettings,
    RewriteSettings,
    RuleSettings,
    UpstreamSettings,
)
from zlrs.config.ring import RingSettings
from zlrs.config.section import BODY_LIMIT_BYTES, Port, Seconds, Section


class EngineSettings(Section, frozen=True):
    """What the engine loads and how much of the machine it may take."""

    model: Annotated[str, Meta(description="name from the registry, path or URL of a GGUF file")] | None = (
        None
    )
    threads: (
        Annotated[int, Meta(ge=1, le=1024, description="worker threads; absent = the cores this process has")]
        | None
    ) = None
    context_tokens: (
        Annotated[int, Meta(ge=16, description="longest prompt plus answer; absent = the model's own window")]
        | None
    ) = None
    kv_bytes: (
        Annotated[int, Meta(ge=1 << 20, description="hard limit of KV memory; absent = the engine chooses")]
        | None
    ) = None
    drafting: Annotated[
        Literal["off", "auto", "always"],
        Meta(description="guess tokens, to verify several in one step: never, as far as it pays, always"),
    ] = "auto"
    device: Annotated[
        Literal["auto", "cpu", "cuda"],
        Meta(
            description="where the model is computed: on a GPU if one can be used, on the processor, on a GPU"
        ),
    ] = "cpu"
    kv_precision: Annotated[
        Literal["f16", "q8", "q4", "governed"],
        Meta(
            description="how a GPU keeps keys and values of aggressive requests: as f16; in 8 or 4 bits; by "
            "load and temperature, with 4 bits or f16 (docs/how-to/gpu.md)"
        ),
    ] = "f16"
    governor_policy: Annotated[
        Literal["idle", "saturated"],
        Meta(description="with `governed`: 4 bits while the memory is idle, or while it is the limit"),
    ] = "idle"
    thermal_limit_c: Annotated[
        int, Meta(ge=40, le=110, description="with `governed`: °C from which on nothing is changed")
    ] = 75
    compute: Annotated[
        Literal["exact", "aggressive"],
        Meta(description="what requests without X-ZLRS-Compute get; `aggressive` leaves out measured work"),
    ] = "exact"


class MaskSettings(Section, frozen=True):
    """One `[[zero_layer.masks]]`: a further load, for requests of one mode and temperature band."""

    path: Annotated[str, Meta(min_length=1, description="mask file made by `zlrs mask build`")]
    name: (
        Annotated[
            str,
            Meta(
                pattern="^[A-Za-z0-9._-]{1,64}$", description="in receipts and metrics; absent = the file's"
            ),
        ]
        | None
    ) = None
    mode: Annotated[
        Literal["aggressive", "sparse-state-aware"],
        Meta(description="`X-ZLRS-Compute` of the requests it may answer; exact ones never"),
    ] = "aggressive"
    temperature_min: Annotated[float, Meta(ge=0, le=2, description="lowest temperature it may answer")] = 0.0
    temperature_max: Annotated[float, Meta(ge=0, le=2, description="highest temperature it may answer")] = 2.0


class ZeroLayerSettings(Section, frozen=True):
    """Parts of the model that are left out of the load, or for some rows (docs/how-to/skip-layers.md)."""

    mask: (
        Annotated[str, Meta(description="mask file made by `zlrs mask build`; absent = the full model")]
        | None
    ) = None
    masks: Annotated[
        list[MaskSettings],
        Meta(
            description="masks loaded beside, each with its own weights and KV memory; the first fit answers"
        ),
    ] = field(default_factory=list)
    confidence: Annotated[
        float,
        Meta(
            ge=0, le=1, description="least confidence of a mask: 1 - bound of other first choices it measured"
        ),
    ] = 0.9
    sample: Annotated[
        float,
        Meta(ge=0, le=1, description="share of masked answers re-run by the full model to count misfires"),
    ] = 0.01
    exits: (
        Annotated[
            str,
            Meta(description="file made by `zlrs exits train`: where aggressive requests leave early"),
        ]
        | None
    ) = None
    neurons: (
        Annotated[
            str,
            Meta(description="file made by `zlrs neurons train`: what aggressive requests take as nothing"),
        ]
        | None
    ) = None
    fallback: Annotated[
        bool,
        Meta(
            description="load the full model when mask or exits are for other weights, in place of an error"
        ),
    ] = False


class SelfDraftingSettings(Section, frozen=True):
    """Guesses that the model makes by itself; answers do not depend on them (docs/how-to/skip-layers.md)."""

    mode: Annotated[
        Literal["off", "auto", "always"],
        Meta(description="let the model guess where `engine.drafting` has none: never, if it pays, always"),
    ] = "off"
    mask: (
        Annotated[
            str, Meta(description="mask of the parts left out while guessing, made by `zlrs drafts train`")
        ]
        | None
    ) = None
    vocabulary_tokens: (
        Annotated[
            int,
            Meta(
                ge=1, description="only the first so many tokens are guessed; absent = as found with the mask"
            ),
        ]
        | None
    ) = None


class ServerSettings(Section, frozen=True):
    """The engine's HTTP server."""

    host: Annotated[
        str, Meta(min_length=1, description="address to listen on; beyond loopback needs keys")
    ] = "127.0.0.1"
    port: Port = 8080
    keys_file: (
        Annotated[str, Meta(description="file with one API key a line; `#` starts a comment line")] | None
    ) = None
    allowed_hosts: Annotated[
        list[str], Meta(description="names a Host header may carry besides loopback and the bound address")
    ] = field(default_factory=list)
    model_aliases: Annotated[
        list[str], Meta(description="further model names answered by the loaded model; `*` = any name")
    ] = field(default_factory=list)
    body_limit_bytes: Annotated[int, Meta(ge=1024, le=1 << 30)] = BODY_LIMIT_BYTES
    body_seconds: Annotated[Seconds, Meta(description="time a client has to send its body")] = 60.0
    queue_limit: Annotated[
        int, Meta(ge=1, le=10_000, description="requests admitted at once, the running one included")
    ] = 64
    deadline_seconds: (
        Annotated[Seconds, Meta(description="longest time one answer may take; absent = no limit")] | None
    ) = None
    default_max_tokens: Annotated[
        int, Meta(ge=1, description="answer length where the request names none, within the model's window")
    ] = 4096
    ping_seconds: Annotated[float, Meta(gt=0, le=15, description="longest silence of a stream")] = 10.0
    drain_seconds: Annotated[
        float, Meta(ge=0, le=3600, description="time running answers get to finish after SIGTERM")
    ] = 30.0
    log_level: Annotated[
        Literal["info", "debug"],
        Meta(description="`debug` adds a line for each layer of every load: what it holds, what is left out"),
    ] = "info"
    warmup: Annotated[
        int, Meta(ge=0, le=1000, description="one-token requests answered before the server is ready")
    ] = 0


class SessionSettings(Section, frozen=True):
    """Conversations whose computed state is kept between turns (docs/how-to/sessions.md)."""

    idle_seconds: Annotated[Seconds, Meta(description="a session ends when it was not used for so long")] = (
        120.0
    )
    grace_seconds: Annotated[
        float, Meta(ge=0, le=3600, description="time in which a destroyed session can be taken up again")
    ] = 30.0
    limit: Annotated[int, Meta(ge=1, le=100_000, description="sessions open at once")] = 1024
    kv_share: Annotated[
        float, Meta(ge=0, le=1, description="share of the KV memory that sessions keep together")
    ] = 0.5
    path: (
        Annotated[str, Meta(description="folder of saved sessions, with their text; absent = none are saved")]
        | None
    ) = None
    key_file: (
        Annotated[
            str,
            Meta(description="secret that seals saved sessions; absent = `key` in their folder, made there"),
        ]
        | None
    ) = None
    file_limit_bytes: Annotated[
        int,
        Meta(ge=4096, le=1 << 40, description="longest file of a saved session; the rest is computed again"),
    ] = 1 << 30
    folder_limit_bytes: Annotated[
        int, Meta(ge=4096, le=1 << 50, description="all saved sessions together; the oldest make way")
    ] = 8 << 30


class HeaderSettings(Section, frozen=True):
    """Receipts on the wire."""

    receipts: Annotated[Literal["on", "off"], Meta(description="`off` hides our response headers")] = "on"
    historical: Annotated[
        bool, Meta(description="answer with the historical X-Anthropic-* spellings even when not asked so")
    ] = False


class Config(Section, frozen=True):
    """The whole of `zlrs.toml`: one table a section, and lists of tables (`[[upstream]]`)."""

    engine: EngineSettings = EngineSettings()
    zero_layer: ZeroLayerSettings = ZeroLayerSettings()
    self_drafting: SelfDraftingSettings = SelfDraftingSettings()
    server: ServerSettings = ServerSettings()
    session: SessionSettings = SessionSettings()
    ring: RingSettings = RingSettings()
    headers: HeaderSettings = HeaderSettings()
    graph: GraphSettings = GraphSettings()
    proxy: ProxySettings = ProxySettings()
    rewrite: RewriteSettings = RewriteSettings()
    capture: CaptureSettings = CaptureSettings()
    upstream: list[UpstreamSettings] = field(default_factory=list)
    rule: list[RuleSettings] = field(default_factory=list)
    price: list[PriceSettings] = field(default_factory=list)
    factor: list[FactorSettings] = field(default_factory=list)
