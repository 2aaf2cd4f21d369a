"""The tables of the decision graph: `[graph]` and `[[factor]]`."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, field

from zlrs.config.section import Seconds, Section
from zlrs.graph_settings import (  # msgspec reads them when it decodes
    BuiltInPatterns,  # noqa: TC001 - msgspec reads it when it decodes
    Canonical,  # noqa: TC001 - msgspec reads it when it decodes
    Edge,  # noqa: TC001 - msgspec reads it when it decodes
    PatternsOff,  # noqa: TC001 - msgspec reads it when it decodes
    Preset,  # noqa: TC001 - msgspec reads it when it decodes
)


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
    canonical: Canonical = "shadow"
    built_in_patterns: BuiltInPatterns = True
    patterns: Annotated[
        dict[
            Annotated[str, Meta(pattern="^[a-z0-9_]{1,32}$")],
            Annotated[str, Meta(min_length=1, max_length=500)],
        ],
        Meta(
            description="name -> regular expression; its group `id`, or the whole match, is a value",
            max_length=64,
        ),
    ] = field(default_factory=dict)
    patterns_off: PatternsOff = field(default_factory=list)
    edge: Edge = "off"
    preset: Preset = "strict"
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
