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


class ProxySettings(Section, frozen=True):
    """The sidecar (`zlrs proxy`)."""

    upstream: Annotated[str, Meta(pattern="^https?://", description="base URL behind it")] | None = None
    host: Annotated[str, Meta(min_length=1)] = "127.0.0.1"
    port: Port = 8090
    keys_file: str | None = None
    allowed_hosts: list[str] = []
    body_limit_bytes: Annotated[int, Meta(ge=1024, le=1 << 30)] = BODY_LIMIT_BYTES
    first_byte_seconds: Annotated[Seconds, Meta(description="limit for the first byte")] = 120.0
    idle_seconds: Annotated[Seconds, Meta(description="longest silence of an upstream stream")] = 300.0
    drain_seconds: Annotated[float, Meta(ge=0, le=3600)] = 30.0


class Config(Section, frozen=True):
    """The whole of `zlrs.toml`: one table a section."""

    engine: EngineSettings = EngineSettings()
    server: ServerSettings = ServerSettings()
    headers: HeaderSettings = HeaderSettings()
    graph: GraphSettings = GraphSettings()
    proxy: ProxySettings = ProxySettings()
