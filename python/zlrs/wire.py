"""Names and shapes on the wire that engine and sidecar share: headers, error bodies, event streams.

Nothing here knows a web framework.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Final, Literal

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from zlrs.errors import ZlrsError

Protocol = Literal["messages", "chat"]
RawHeaders = tuple[tuple[bytes, bytes], ...]

# --- our headers ------------------------------------------------------------------------------------------

OUR_PREFIX: Final = b"x-zlrs-"

COMPUTE: Final = "X-ZLRS-Compute"
CONTEXT: Final = "X-ZLRS-Context"
GUARANTEE: Final = "X-ZLRS-Guarantee"
KV_POLICY: Final = "X-ZLRS-KV-Policy"
RING: Final = "X-ZLRS-Ring"
VALIDATION: Final = "X-ZLRS-Validation"
VALIDATION_HEAD: Final = "X-ZLRS-Validation-Head"
SESSION: Final = "X-ZLRS-Session"
CONTEXT_SIGNATURE: Final = "X-ZLRS-Context-Signature"
KV_MIGRATE: Final = "X-ZLRS-KV-Migrate"
STREAM_MODE: Final = "X-ZLRS-Stream-Mode"
DIAGNOSTIC: Final = "X-ZLRS-Diagnostic"
NO_GRAPH: Final = "X-ZLRS-No-Graph"
CACHE_ONLY: Final = "X-ZLRS-Cache-Only"
MULTI_MODAL: Final = "X-ZLRS-Multi-Modal"
COHORT: Final = "X-ZLRS-Cohort"
COMPUTE_PROFILE: Final = "X-ZLRS-Compute-Profile"
CONTEXT_EFFICIENCY: Final = "X-ZLRS-Context-Efficiency"
MODEL_VERSION: Final = "X-ZLRS-Model-Version"
MODEL_INFO: Final = "X-ZLRS-Model-Info"
ZERO_ACTIVE: Final = "X-ZLRS-Zero-Active"
ANCHOR_HITS: Final = "X-ZLRS-Anchor-Hits"
FIDELITY_SCORE: Final = "X-ZLRS-Fidelity-Score"
COMPUTE_SAVINGS: Final = "X-ZLRS-Compute-Savings"
STATE_VECTOR: Final = "X-ZLRS-State-Vector"
LATENCY: Final = "X-ZLRS-Latency"
DECISION: Final = "X-ZLRS-Decision"
TOKENS: Final = "X-ZLRS-Tokens"
TRUNCATED: Final = "X-ZLRS-Truncated"
REWRITTEN: Final = "X-ZLRS-Rewritten"
REQUEST_ID: Final = "X-ZLRS-Request-Id"
AUDIT: Final = "X-ZLRS-Audit"


def is_ours(name: bytes) -> bool:
    """Whether a header is in the name space of zlrs."""
    return name.lower().startswith(OUR_PREFIX)


# --- headers between hops ---------------------------------------------------------------------------------

HOP_BY_HOP: Final = frozenset(
    {
        b"connection",
        b"keep-alive",
        b"proxy-authenticate",
        b"proxy-authentication-info",
        b"proxy-connection",
        b"te",
        b"trailer",
        b"transfer-encoding",
        b"upgrade",
    }
)
"""What ends at this hop (RFC 9110, section 7.6.1, and the fields that proxies have been seen to pass on)."""

NEVER_CONNECTION_NAMED: Final = frozenset(
    {
        b"api-key",
        b"authorization",
        b"content-encoding",
        b"content-length",
        b"content-type",
        b"cookie",
        b"host",
        b"set-cookie",
        b"x-api-key",
        b"x-goog-api-key",
    }
)
"""What a peer cannot make us drop by naming it in `Connection`: framing, and who is asking."""


def connection_named(headers: Iterable[tuple[bytes, bytes]]) -> frozenset[bytes]:
    """Lower-case names that `Connection` lists, which end at this hop too."""
    named = {
        part.strip(b" \t").lower()
        for name, value in headers
        if name.lower() == b"connection"
        for part in value.split(b",")
    }
    return frozenset(named - NEVER_CONNECTION_NAMED - {b""})


def end_to_end(
    headers: Iterable[tuple[bytes, bytes]], drop: frozenset[bytes] = frozenset()
) -> list[tuple[bytes, bytes]]:
    """The headers that travel on, in order, with their spelling and repetitions.

    Args:
        headers: Names and values as they came.
        drop: Further lower-case names that end here.
    """
    gone = _gone(drop)
    kept: list[tuple[bytes, bytes]] = []
    connection: list[tuple[bytes, bytes]] = []
    for pair in headers:
        name = pair[0].lower()
        if name not in gone:
            kept.append(pair)
        elif name == b"connection":
            connection.append(pair)
    named = connection_named(connection) if connection else None
    return [pair for pair in kept if pair[0].lower() not in named] if named else kept


@lru_cache(maxsize=16)
def _gone(drop: frozenset[bytes]) -> frozenset[bytes]:
    return HOP_BY_HOP | drop


# --- errors -----------------------------------------------------------------------------------------------


def error_object(
    error: ZlrsError, protocol: Protocol, request_id: str, *, param: str | None = None
) -> dict[str, object]:
    """The error body of a protocol; also the data of an error event.

    Args:
        error: What to say.
        protocol: Whose shape it has.
        request_id: Ours.
        param: The field at fault, which Chat bodies name.
    """
    if protocol == "chat":
        return {
            "error": {
                "message": error.message,
                "type": error.type,
                "param": param,
                "code": error.code,
                "suggestion": error.suggestion,
            }
        }
    body: dict[str, object] = {"type": error.type, "message": error.message, "suggestion": error.suggestion}
    # Codes that only Chat clients know stay out of Messages bodies; the historical ones are for both.
    if error.code is not None and (error.code != error.default_code or error.code.startswith("ERR_")):
        body["code"] = error.code
    return {"type": "error", "error": body, "request_id": request_id}


def error_body(error: ZlrsError, protocol: Protocol, request_id: str, *, param: str | None = None) -> bytes:
    """`error_object` as compact JSON."""
    return msgspec.json.encode(error_object(error, protocol, request_id, param=param))


# --- event streams ----------------------------------------------------------------------------------------

CHAT_DONE: Final = b"data: [DONE]\n\n"
"""The last event of a Chat stream."""

SSE_HEADERS: Final[Mapping[str, str]] = {
    "content-type": "text/event-stream; charset=utf-8",
    "cache-control": "no-cache",
    "x-accel-buffering": "no",
}
"""Headers of an event stream; the last one keeps proxies in front from buffering it."""


def message_event(data: Mapping[str, object]) -> bytes:
    """One Messages event. The `event:` line repeats the `type` inside: clients need both.

    Raises:
        ValueError: The type is not a plain name.
    """
    name = data.get("type")
    if not isinstance(name, str) or not name.replace("_", "").isalnum() or not name.isascii():
        raise ValueError(f"an event's type must be letters, digits and underscores, got {name!r}")
    return b"event: %s\ndata: %s\n\n" % (name.encode("ascii"), msgspec.json.encode(data))


def chat_chunk(data: Mapping[str, object]) -> bytes:
    """One Chat chunk."""
    return b"data: %s\n\n" % msgspec.json.encode(data)
