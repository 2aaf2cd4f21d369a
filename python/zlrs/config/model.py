"""Every setting there is: its name, type, range, unit and default.

This tree is the one source for parsing, `zlrs config show`, the JSON schema and the reference pages.
Units are part of the names: `_seconds`, `_bytes`, `_tokens`, `_ms`.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

BODY_LIMIT_BYTES = 32_000_000
"""The request size both protocols state for a message: 32 MB."""


class Section(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One table of `zlrs.toml`."""


Port = Annotated[int, Meta(ge=0, le=65535, description="TCP port; 0 takes a free one and prints it")]
Seconds = Annotated[float, Meta(gt=0, le=86_400)]


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
    """Parts of the model that are left out of the load (docs/how-to/skip-layers.md)."""

    mask: (
        Annotated[str, Meta(description="mask file made by `zlrs mask build`; absent = the full model")]
        | None
    ) = None
    masks: Annotated[
        list[MaskSettings],
        Meta(
            description="masks loaded beside, each with its own weights and KV memory; the first fit answers"
        ),
    ] = []
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
    fallback: Annotated[
        bool, Meta(description="load the full model when the mask is for other weights, in place of an error")
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
    vocabulary_tokens: Annotated[
        int, Meta(ge=1, description="only the first so many tokens of the vocabulary are guessed")
    ] = 32_768


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
    ] = []
    model_aliases: Annotated[
        list[str], Meta(description="further model names answered by the loaded model; `*` = any name")
    ] = []
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


class GraphSettings(Section, frozen=True):
    """The decision graph, in the engine (`zlrs serve --graph`) and in the sidecar."""

    enabled: bool = False
    path: (
        Annotated[
            str, Meta(description="a directory of its own, or `memory`; absent = under the data folder")
        ]
        | None
    ) = None
    absent_temperature: Annotated[
        Literal["ineligible", "eligible"],
        Meta(description="an absent temperature means 1.0 in both protocols, which is never served"),
    ] = "ineligible"
    ttl_seconds: Annotated[float, Meta(ge=1, le=2_592_000, description="life of a stored answer")] = 86_400.0
    canonical: Annotated[
        Literal["off", "shadow", "bounded"],
        Meta(description="other wordings by the canonical rules: not used, compared, or served once proven"),
    ] = "shadow"
    edge: Annotated[
        Literal["off", "shadow", "bounded"],
        Meta(
            description="forms that look alike: not used, compared, or served once edge and class are proven"
        ),
    ] = "off"
    preset: Annotated[
        Literal["strict", "standard", "trial"],
        Meta(description="wrong answers per hit that are accepted: 0.1 %, 0.5 %, 1 %"),
    ] = "strict"
    remote: Annotated[
        tuple[Annotated[str, Meta(pattern="^(rediss?|redis\\+unix|unix)://")], ...],
        Meta(description="Redis or Valkey behind the store, for several machines with one key file"),
    ] = ()
    remote_is_cluster: Annotated[bool, Meta(description="the addresses are nodes of a Cluster")] = False
    remote_deadline_seconds: Annotated[
        float, Meta(ge=0.001, le=1, description="longest lookup there; past it a miss")
    ] = 0.025
    remote_prefix: Annotated[
        str, Meta(pattern="^[A-Za-z0-9._-]{1,64}$", description="begins every name there")
    ] = "zlrs"
    remote_username: str | None = None
    remote_password_env: Annotated[str, Meta(description="variable with the password there")] | None = None
    judge_url: (
        Annotated[
            str,
            Meta(
                pattern="^https?://", description="Chat endpoint (up to /v1) that compares where rules cannot"
            ),
        ]
        | None
    ) = None
    judge_model: Annotated[str, Meta(min_length=1, description="the judge's model")] | None = None
    judge_key_env: Annotated[str, Meta(description="variable with the judge's key")] | None = None
    judge_timeout_seconds: Annotated[Seconds, Meta(description="longest wait for a verdict")] = 10.0
    judge_callable: (
        Annotated[
            str, Meta(pattern="^[^:]+:[^:]+$", description="package.module:function instead of an endpoint")
        ]
        | None
    ) = None
    judge_error: (
        Annotated[
            float,
            Meta(ge=0, le=0.05, description="its measured error; absent = it is asked and changes nothing"),
        ]
        | None
    ) = None


class FactorSettings(Section, frozen=True):
    """One `[[factor]]`: a fact that answers depend on. It has one of `http`, `redis`, `callable`."""

    name: Annotated[
        str,
        Meta(pattern="^[A-Za-z0-9._-]{1,64}$", description="its name; a change of its value is a new scope"),
    ]
    http: Annotated[str, Meta(pattern="^https?://", description="URL whose body is the value")] | None = None
    redis: Annotated[str, Meta(pattern="^redis://", description="redis://host:port/database")] | None = None
    redis_key: Annotated[str, Meta(min_length=1, description="key whose string is the value")] | None = None
    redis_password_env: Annotated[str, Meta(description="variable with the password")] | None = None
    callable: (
        Annotated[str, Meta(pattern="^[^:]+:[^:]+$", description="package.module:function that returns it")]
        | None
    ) = None
    ttl_seconds: Annotated[
        Seconds, Meta(description="life of a value; without a fresh one requests are not eligible")
    ] = 60.0
    timeout_seconds: Annotated[Seconds, Meta(description="longest wait for the provider")] = 2.0


class ProxySettings(Section, frozen=True):
    """The sidecar (`zlrs proxy`). Secrets are named here, never written."""

    upstream: Annotated[str, Meta(pattern="^https?://", description="base URL behind it")] | None = None
    upstream_is_zlrs: Annotated[
        bool, Meta(description="the upstream is a zlrs: its X-ZLRS-* headers are relayed")
    ] = False
    upstream_ca_file: (
        Annotated[str, Meta(description="authority of the upstream's certificate (PEM)")] | None
    ) = None
    upstream_key_env: (
        Annotated[str, Meta(description="variable with the key that replaces the callers' upstream")] | None
    ) = None
    upstream_key_file: (
        Annotated[str, Meta(description="file with the key that replaces the callers' upstream")] | None
    ) = None
    host: Annotated[str, Meta(min_length=1)] = "127.0.0.1"
    port: Port = 8090
    workers: Annotated[
        int, Meta(ge=1, le=256, description="processes that answer; they share address and store")
    ] = 1
    admin: (
        Annotated[str, Meta(description="HOST:PORT of probes and metrics; absent = under /zlrs/")] | None
    ) = None
    admin_token_file: Annotated[str, Meta(description="token that metrics need")] | None = None
    keys_file: Annotated[str, Meta(description="client keys; needed beyond loopback")] | None = None
    allowed_hosts: Annotated[
        list[str], Meta(description="names a Host header may carry besides loopback and the bound address")
    ] = []
    via: Annotated[bool, Meta(description="add `Via: 1.1 zlrs` to what goes upstream")] = True
    unknown_paths: Annotated[
        Literal["relay", "refuse"],
        Meta(description="what becomes of paths that are not of messages, chat, responses or models"),
    ] = "relay"
    body_limit_bytes: Annotated[int, Meta(ge=1024, le=1 << 30)] = BODY_LIMIT_BYTES
    first_byte_seconds: Annotated[Seconds, Meta(description="longest wait for an upstream's first byte")] = (
        600.0
    )
    idle_seconds: Annotated[Seconds, Meta(description="longest silence of an upstream stream")] = 300.0
    ping_seconds: (
        Annotated[Seconds, Meta(description="send a ping into an event stream that is silent this long")]
        | None
    ) = None
    decide_seconds: Annotated[
        Seconds, Meta(description="longest wait for the graph; past it upstream is asked")
    ] = 0.25
    drain_seconds: Annotated[float, Meta(ge=0, le=3600)] = 30.0
    retries: Annotated[
        int, Meta(ge=0, le=5, description="further tries, before the first byte, of what is safe to repeat")
    ] = 0
    retry_after_limit_seconds: Annotated[
        Seconds, Meta(description="an upstream that asks for a longer pause is not retried here")
    ] = 5.0
    breaker_failures: Annotated[
        int, Meta(ge=1, le=1000, description="failures in a row after which an upstream is passed over")
    ] = 5
    breaker_open_seconds: Annotated[
        Seconds, Meta(description="how long, before one request tries it again")
    ] = 10.0
    window_tokens: (
        Annotated[int, Meta(ge=1, description="context window; max_tokens over 75 % of it is refused")] | None
    ) = None
    cut_max_tokens: (
        Annotated[int, Meta(ge=1, description="lower a larger max_tokens to this, and say so")] | None
    ) = None
    recount: Annotated[bool, Meta(description="count input tokens beside the upstream's own count")] = False
    recount_model: (
        Annotated[str, Meta(description="model whose tokenizer counts: name or GGUF path; absent = estimate")]
        | None
    ) = None
    access_log: Annotated[bool, Meta(description="one log line for each answer of upstream or graph")] = False
    usage_ledger: Annotated[
        bool, Meta(description="keep sums of tokens by minute and model for `zlrs cost report`")
    ] = True
    state_path: (
        Annotated[str, Meta(description="folder of the ledger and secrets; absent = under the data folder")]
        | None
    ) = None
    cache_ratio: Annotated[
        dict[str, Annotated[float, Meta(ge=0, le=1)]],
        Meta(description="cohort -> share of asks that may be answered from the graph; `default` = the rest"),
    ] = {}


class RewriteSettings(Section, frozen=True):
    """What the sidecar changes in requests. All of it is off; the first system text is never touched."""

    hygiene: Annotated[
        Literal["off", "safe", "all"],
        Meta(
            description="clean user and later system texts: by rules that take away nothing visible, or all"
        ),
    ] = "off"
    redact: Annotated[
        list[Literal["chinese_id", "bank_card", "iban", "chinese_mobile", "phone", "email"]],
        Meta(description="kinds of personal numbers masked in all texts but the first system text"),
    ] = []
    redact_kept: Annotated[
        int, Meta(ge=0, le=4, description="last letters and digits of a masked number that stay")
    ] = 0
    auto_temper: Annotated[
        list[Annotated[str, Meta(min_length=1, max_length=1000)]],
        Meta(description="regular expressions; an ask whose last user text has one gets temperature 0"),
    ] = []


class CaptureSettings(Section, frozen=True):
    """Bodies of requests and answers, kept with their personal numbers masked. Off."""

    enabled: bool = False
    share: Annotated[float, Meta(ge=0, le=1, description="of the requests, drawn by their id")] = 1.0
    body_bytes: Annotated[
        int, Meta(ge=256, le=4 << 20, description="what is kept of each body; the rest is cut")
    ] = 64 << 10
    total_bytes: Annotated[
        int, Meta(ge=1 << 20, description="most bytes of the folder; over it the oldest files go")
    ] = 256 << 20
    retention_days: Annotated[int, Meta(ge=1, le=365, description="older files are removed")] = 7


class UpstreamSettings(Section, frozen=True):
    """One `[[upstream]]` of the sidecar, instead of `proxy.upstream`. The first gets what is not spread."""

    name: Annotated[
        str, Meta(pattern="^[A-Za-z0-9._-]{1,64}$", description="its name in logs, metrics and the ledger")
    ]
    url: Annotated[str, Meta(pattern="^https?://", description="base URL")]
    weight: Annotated[float, Meta(ge=0, le=1e6, description="share of the conversations")] = 1.0
    fallback: Annotated[bool, Meta(description="asked only when the others cannot be")] = False
    is_zlrs: Annotated[bool, Meta(description="a zlrs: its X-ZLRS-* headers are relayed")] = False
    ca_file: Annotated[str, Meta(description="authority of its certificate (PEM)")] | None = None
    key_env: Annotated[str, Meta(description="variable with the key that replaces the callers'")] | None = (
        None
    )
    key_file: Annotated[str, Meta(description="file with the key that replaces the callers'")] | None = None


class RuleSettings(Section, frozen=True):
    """One `[[rule]]`: asks that go past the graph. Every condition that is given must hold."""

    name: Annotated[str, Meta(pattern="^[A-Za-z0-9._-]{1,64}$", description="its name in metrics")]
    pattern: (
        Annotated[
            str,
            Meta(
                min_length=1,
                max_length=1000,
                description="regular expression, searched in the last user text",
            ),
        ]
        | None
    ) = None
    model: (
        Annotated[str, Meta(min_length=1, description="model name; a final `*` stands for any end")] | None
    ) = None
    cohort: Annotated[str, Meta(pattern="^[A-Za-z0-9._-]{1,64}$", description="X-ZLRS-Cohort")] | None = None
    share: Annotated[
        float, Meta(ge=0, le=1, description="of the asks that match, chosen by fingerprint: always the same")
    ] = 1.0


class PriceSettings(Section, frozen=True):
    """One `[[price]]`: what a model's tokens cost, in one currency for the whole table."""

    model: Annotated[str, Meta(min_length=1, description="model name; a final `*` stands for any end")]
    input_per_million: Annotated[float, Meta(ge=0)]
    output_per_million: Annotated[float, Meta(ge=0)]
    cache_read_per_million: (
        Annotated[float, Meta(ge=0, description="input read from the upstream's cache; absent = as input")]
        | None
    ) = None
    cache_write_per_million: (
        Annotated[float, Meta(ge=0, description="input written to it; absent = as input")] | None
    ) = None


class Config(Section, frozen=True):
    """The whole of `zlrs.toml`: one table a section, and lists of tables (`[[upstream]]`)."""

    engine: EngineSettings = EngineSettings()
    zero_layer: ZeroLayerSettings = ZeroLayerSettings()
    self_drafting: SelfDraftingSettings = SelfDraftingSettings()
    server: ServerSettings = ServerSettings()
    session: SessionSettings = SessionSettings()
    headers: HeaderSettings = HeaderSettings()
    graph: GraphSettings = GraphSettings()
    proxy: ProxySettings = ProxySettings()
    rewrite: RewriteSettings = RewriteSettings()
    capture: CaptureSettings = CaptureSettings()
    upstream: list[UpstreamSettings] = []
    rule: list[RuleSettings] = []
    price: list[PriceSettings] = []
    factor: list[FactorSettings] = []
