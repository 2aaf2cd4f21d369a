"""The tables of the sidecar: `[proxy]`, `[rewrite]`, `[capture]`, `[[upstream]]`, `[[rule]]`, `[[price]]`."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, field

from zlrs.config.section import BODY_LIMIT_BYTES, Port, Seconds, Section


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
    ] = field(default_factory=list)
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
    ] = field(default_factory=dict)


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
    ] = field(default_factory=list)
    redact_kept: Annotated[
        int, Meta(ge=0, le=4, description="last letters and digits of a masked number that stay")
    ] = 0
    auto_temper: Annotated[
        list[Annotated[str, Meta(min_length=1, max_length=1000)]],
        Meta(description="regular expressions; an ask whose last user text has one gets temperature 0"),
    ] = field(default_factory=list)


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
