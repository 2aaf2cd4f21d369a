"""How a decision graph is made: settings, and the store behind its own. `zlrs.graph` exports all of it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated, Literal

import msgspec
from msgspec import Meta

from zlrs.errors import ConfigurationError

if TYPE_CHECKING:
    from zlrs.config import GraphSettings as GraphSection

_MIB = 1 << 20
_DAY_S = 86_400

# Of settings that a configuration file has too.
Canonical = Annotated[
    Literal["off", "shadow", "bounded"],
    Meta(description="other wordings by the canonical rules: not used, compared, or served once proven"),
]
BuiltInPatterns = Annotated[
    bool, Meta(description="orders, invoices, tickets, phones, … are values of a form")
]
PatternsOff = Annotated[
    list[str], Meta(description="names of patterns, built in or configured, that are not looked for")
]
Edge = Annotated[
    Literal["off", "shadow", "bounded"],
    Meta(description="forms that look alike: not used, compared, or served once edge and class are proven"),
]
Preset = Annotated[
    Literal["strict", "standard", "trial"],
    Meta(description="wrong answers per hit that are accepted: 0.1 %, 0.5 %, 1 %"),
]


class GraphSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings of a decision graph. The native core checks the ranges again."""

    same: Annotated[bool, Meta(description="whether the *same* route serves and stores")] = True
    ttl_s: Annotated[int, Meta(ge=1, le=30 * _DAY_S, description="how long an answer is served")] = _DAY_S
    max_answer_bytes: Annotated[int, Meta(ge=1, le=64 * _MIB, description="largest answer stored")] = _MIB
    max_ask_chars: Annotated[int, Meta(ge=1, le=10_000_000, description="longest ask looked up")] = 200_000
    temperature_limit: Annotated[float, Meta(ge=0, le=0.1, description="highest eligible temperature")] = 0.1
    absent_temperature: Annotated[
        Literal["not_eligible", "eligible"],
        Meta(description="an absent temperature means 1.0 in both protocols"),
    ] = "not_eligible"
    credential_check: Annotated[
        bool,
        Meta(description="a hit needs a credential the upstream accepted lately; off for the engine itself"),
    ] = True
    credential_window_s: Annotated[int, Meta(ge=1, le=_DAY_S, description="how lately")] = 900
    max_entries: Annotated[int, Meta(ge=1, le=100_000_000, description="entries kept")] = 1_000_000
    max_bytes: Annotated[int, Meta(ge=_MIB, le=1 << 50, description="bytes kept")] = 1024 * _MIB
    body_cache_bytes: Annotated[int, Meta(ge=0, le=1 << 50, description="answers kept in memory")] = 24 * _MIB
    read_deadline_ms: Annotated[int, Meta(ge=1, le=1000, description="longest lookup; past it a miss")] = 5
    audit: Annotated[bool, Meta(description="write decisions to the audit log beside the store")] = True
    canonical: Canonical = "shadow"
    built_in_patterns: BuiltInPatterns = True
    patterns: Annotated[
        dict[str, str],
        Meta(description="name -> regular expression; its group `id`, or the whole match, is a value"),
    ] = {}
    patterns_off: PatternsOff = []
    edge: Edge = "off"
    max_forms: Annotated[int, Meta(ge=1, le=10_000_000, description="forms remembered for it")] = 200_000
    preset: Preset = "strict"
    recheck: Annotated[bool, Meta(description="ask again for served answers; off for the engine itself")] = (
        True
    )
    recheck_least_age_s: Annotated[
        int, Meta(ge=0, le=_DAY_S, description="youngest answer that is asked for again")
    ] = 60
    recheck_every_s: Annotated[
        int, Meta(ge=1, le=3600, description="longest an answer is served without being asked for again")
    ] = 3600


class RemoteStore(msgspec.Struct, frozen=True, kw_only=True):
    """A Redis or Valkey that several machines share, behind the store of each."""

    addresses: list[str]
    """`redis://HOST:PORT/`, without a password; of a Cluster, some of its nodes."""
    is_cluster: bool = False
    deadline_ms: int = 25
    """Longest a lookup there may take; past it a miss."""
    prefix: str = "zlrs"
    """Begins every name there."""
    username: str | None = None
    password: str | None = None

    def __repr__(self) -> str:
        return f"RemoteStore({self.addresses}, is_cluster={self.is_cluster})"


def configured_remote(section: GraphSection) -> RemoteStore | None:
    """The remote store of a configuration; None where it has none.

    Raises:
        ConfigurationError: Its password is not in the environment.
    """
    if not section.remote:
        return None
    variable = section.remote_password_env
    password = os.environ.get(variable) if variable else None
    if variable and password is None:
        raise ConfigurationError(f"graph.remote_password_env: the variable {variable} is not set")
    return RemoteStore(
        addresses=list(section.remote),
        is_cluster=section.remote_is_cluster,
        deadline_ms=max(1, round(section.remote_deadline_seconds * 1000)),
        prefix=section.remote_prefix,
        username=section.remote_username,
        password=password,
    )
