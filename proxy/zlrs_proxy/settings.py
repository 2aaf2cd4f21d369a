"""Everything the sidecar can be told, checked once at the start. Units are part of the names."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

MEBIBYTE = 1 << 20

Seconds = Annotated[float, Meta(gt=0, le=86_400)]
Bytes = Annotated[int, Meta(ge=1024)]


class SettingsError(ValueError):
    """A setting that cannot be used; the message says which, why and what to do."""


Share = Annotated[float, Meta(ge=0, le=1)]


class UpstreamSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One upstream. `zlrs.config.UpstreamSettings` says what each field means."""

    name: str = "upstream"
    url: str
    weight: float = 1.0
    fallback: bool = False
    is_zlrs: bool = False
    ca_file: str | None = None
    key_env: str | None = None
    key_file: str | None = None


class RuleSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Asks that go past the graph. `zlrs.config.RuleSettings` says what each field means."""

    name: str
    pattern: str | None = None
    model: str | None = None
    cohort: str | None = None
    share: Share = 1.0


class RewriteSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is changed in requests; nothing by default. `zlrs.config.RewriteSettings` says what it means."""

    hygiene: tuple[str, ...] = ()
    """Names of rules in `zlrs.texts.RULES`."""
    redact: tuple[str, ...] = ()
    """Names of kinds in `zlrs.texts.KINDS`."""
    redact_kept: Annotated[int, Meta(ge=0, le=4)] = 0
    auto_temper: tuple[str, ...] = ()
    """Patterns."""

    @property
    def is_on(self) -> bool:
        """Whether anything may be changed."""
        return bool(self.hygiene or self.redact or self.auto_temper)


class CaptureSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which bodies are kept; none by default. `zlrs.config.CaptureSettings` says what each field means."""

    enabled: bool = False
    share: Share = 1.0
    body_bytes: Annotated[int, Meta(ge=256)] = 64 << 10
    total_bytes: Annotated[int, Meta(ge=MEBIBYTE)] = 256 * MEBIBYTE
    retention_days: Annotated[int, Meta(ge=1)] = 7


class Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where to listen, what stands behind, and every limit. Secrets are named here, never held."""

    upstream: str = ""
    """Base URL (`https://host[:port][/prefix]`). Nothing a caller sends can change it."""
    upstream_is_zlrs: bool = False
    """The upstream is a zlrs itself: its `X-ZLRS-*` answers are relayed and it receives the caller's."""
    upstream_ca_file: str | None = None
    """PEM file of the authority that signs the upstream's certificate, instead of the system's."""
    upstream_key_env: str | None = None
    """Environment variable with the key that replaces the callers' credentials upstream."""
    upstream_key_file: str | None = None
    """File with that key, instead."""
    upstreams: tuple[UpstreamSettings, ...] = ()
    """Several upstreams, instead of the one above."""
    retries: Annotated[int, Meta(ge=0, le=5)] = 0
    """Further rounds over the upstreams, before the first byte, for what is safe to repeat."""
    retry_after_limit_seconds: Seconds = 5.0
    """An upstream that asks for a longer pause gets none: its answer is relayed."""
    breaker_failures: Annotated[int, Meta(ge=1)] = 5
    breaker_open_seconds: Seconds = 10.0

    unknown_paths: Literal["relay", "refuse"] = "relay"
    """What becomes of paths that are not of messages, chat, responses or models."""
    rewrite: RewriteSettings = RewriteSettings()
    capture: CaptureSettings = CaptureSettings()
    rules: tuple[RuleSettings, ...] = ()
    cache_ratio: dict[str, Share] = {}
    """Cohort to the share of asks that the graph may answer; `default` is for all others."""
    window_tokens: Annotated[int, Meta(ge=1)] | None = None
    """Context window against which `max_tokens` is checked."""
    cut_max_tokens: Annotated[int, Meta(ge=1)] | None = None
    """A larger `max_tokens` is lowered to this; the receipt says so."""
    recount: bool = False
    recount_model: str | None = None
    """Name or path of the model whose tokenizer counts; None: an estimate."""
    access_log: bool = False
    state_folder: str | None = None
    """Folder of the ledger and of the secret behind fingerprints; None: neither outlives the process."""
    usage_ledger: bool = True
    """Keep the ledger, where there is a state folder."""

    host: str = "127.0.0.1"
    port: Annotated[int, Meta(ge=0, le=65_535)] = 8090
    workers: Annotated[int, Meta(ge=1, le=256)] = 1
    """Processes that answer; they share address and store."""
    admin_host: str = "127.0.0.1"
    admin_port: Annotated[int, Meta(ge=0, le=65_535)] | None = None
    """Absent: probes and metrics are served on the main address under `/zlrs/`."""
    admin_token_file: str | None = None
    keys_file: str | None = None
    """File with one client key a line; needed beyond loopback."""
    allowed_hosts: tuple[str, ...] = ()
    """Names a `Host` header may carry besides loopback and the bound address; `*` allows all."""

    receipts: bool = True
    via: bool = True
    """Add `Via: 1.1 zlrs` to what goes upstream, as the HTTP standard asks of a gateway."""

    body_limit_bytes: Bytes = 32_000_000
    """Messages and Chat requests: what both protocols state."""
    relay_body_limit_bytes: Bytes = 512_000_000
    """Every other request; it is streamed and never held."""
    graph_body_limit_bytes: Bytes = 4 * MEBIBYTE
    """Requests longer than this are relayed without a look at the graph."""
    answer_limit_bytes: Bytes = 4 * MEBIBYTE
    """Answers longer than this (decoded) are relayed and not kept."""
    in_flight_limit: Annotated[int, Meta(ge=1)] = 1024
    connection_limit: Annotated[int, Meta(ge=1)] = 8192
    settle_queue_limit: Annotated[int, Meta(ge=1)] = 256
    fill_limit: Annotated[int, Meta(ge=0)] = 8
    """Background calls upstream that may run at once for `X-ZLRS-Cache-Only` misses."""
    recheck_limit: Annotated[int, Meta(ge=0)] = 8
    """Background calls upstream that may run at once to check served answers; 0 checks none."""

    header_seconds: Seconds = 10.0
    """From the first byte of a request (or the start of a connection) to the end of its headers."""
    body_seconds: Seconds = 30.0
    """Longest silence while a body is being sent to us."""
    keepalive_seconds: Seconds = 75.0
    connect_seconds: Seconds = 10.0
    first_byte_seconds: Seconds = 600.0
    """From the request to the upstream's status line. Answers that are not streamed begin when they end."""
    idle_seconds: Seconds = 300.0
    """Longest silence of an upstream in the middle of an answer. There is no limit on the whole."""
    client_stall_seconds: Seconds = 120.0
    """Longest time a client may leave its receive buffer full."""
    ping_seconds: Seconds | None = None
    """After how much silence of an upstream's event stream the client gets a ping of ours; None: never."""
    decide_seconds: Seconds = 0.25
    """Longest wait for the graph's decision; a slower one is no decision, and upstream is asked."""
    store_retry_seconds: Seconds = 5.0
    """How often a store that cannot be used is tried again."""
    follower_seconds: Annotated[float, Meta(ge=0, le=60)] = 2.0
    """How long an ask waits for the same ask that is already on its way."""
    drain_seconds: Annotated[float, Meta(ge=0, le=3600)] = 30.0

    def all_upstreams(self) -> tuple[UpstreamSettings, ...]:
        """The list of upstreams, or the single one as a list.

        Raises:
            SettingsError: There is none, or two have one name.
        """
        if self.upstreams:
            names = [one.name for one in self.upstreams]
            twice = next((name for name in names if names.count(name) > 1), None)
            if twice is not None:
                raise SettingsError(f"two upstreams have the name {twice!r}")
            return self.upstreams
        if not self.upstream:
            raise SettingsError("no upstream is given")
        return (
            UpstreamSettings(
                url=self.upstream,
                is_zlrs=self.upstream_is_zlrs,
                ca_file=self.upstream_ca_file,
                key_env=self.upstream_key_env,
                key_file=self.upstream_key_file,
            ),
        )
