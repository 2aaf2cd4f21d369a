"""Everything the sidecar can be told, checked once at the start. Units are part of the names."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

MEBIBYTE = 1 << 20

Seconds = Annotated[float, Meta(gt=0, le=86_400)]
Bytes = Annotated[int, Meta(ge=1024)]


class SettingsError(ValueError):
    """A setting that cannot be used; the message says which, why and what to do."""


class Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where to listen, what stands behind, and every limit. Secrets are named here, never held."""

    upstream: str
    """Base URL (`https://host[:port][/prefix]`). Nothing a caller sends can change it."""
    upstream_is_zlrs: bool = False
    """The upstream is a zlrs itself: its `X-ZLRS-*` answers are relayed and it receives the caller's."""
    upstream_ca_file: str | None = None
    """PEM file of the authority that signs the upstream's certificate, instead of the system's."""
    upstream_key_env: str | None = None
    """Environment variable with the key that replaces the callers' credentials upstream."""

    host: str = "127.0.0.1"
    port: Annotated[int, Meta(ge=0, le=65_535)] = 8090
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
    decide_seconds: Seconds = 0.25
    """Longest wait for the graph's decision; a slower one is no decision, and upstream is asked."""
    follower_seconds: Annotated[float, Meta(ge=0, le=60)] = 2.0
    """How long an ask waits for the same ask that is already on its way."""
    drain_seconds: Annotated[float, Meta(ge=0, le=3600)] = 30.0
