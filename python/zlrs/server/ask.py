"""A request after parsing and checking, the same for both protocols, and the checks both share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from msgspec import UNSET

from zlrs.server.errors import invalid

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from zlrs.options import GenerateOptions
    from zlrs.types import Block, Message

Number = TypeVar("Number", int, float)

STOP_COUNT = 64
STOP_BYTES = 1024
SEED_LIMITS = (-(1 << 63), (1 << 64) - 1)
"""Whatever a client calls a 64-bit seed; negative ones count modulo 2^64."""
COUNT_LIMIT = 1 << 31
DROPPED_BLOCKS = frozenset({"thinking", "redacted_thinking"})
"""Blocks of earlier answers that the protocol itself leaves out of the next prompt."""


@dataclass(frozen=True)
class Part:
    """One of several answers to one request."""

    tag: str
    turns: tuple[Message, ...]
    options: GenerateOptions


@dataclass(frozen=True)
class Ask:
    """What is to be answered.

    Attributes:
        turns: Role and text in order; `system` may stand anywhere.
        options: For the engine; `max_tokens` is still missing when the request had none.
        stream: Server-sent events instead of one body.
        include_usage: Chat: a last chunk with usage.
        ignored: Body fields that are not known.
        writes_cache: Messages: `cache_control` is somewhere in the request.
        session: `zlrs.session`: `create`, or a session's secret.
        append: `zlrs.append`: the turns are only what is new in the session.
        user: The caller's own name for the user.
        parts: Several answers are asked for: these, and not the one of `turns` and `options`.
        parts_name: The field of `zlrs` that asked for them.
    """

    turns: tuple[Message, ...]
    options: GenerateOptions
    stream: bool
    include_usage: bool
    ignored: tuple[str, ...]
    writes_cache: bool = False
    session: str | None = None
    append: bool = False
    user: str | None = None
    parts: tuple[Part, ...] = ()
    parts_name: str = ""


def in_range(name: str, value: Number | None, low: Number, high: Number, *, above: bool = False) -> None:
    """Refuse a number outside low … high (`above`: low itself is refused too)."""
    if value is None:
        return
    if value < low or value > high or (above and value == low):
        left = "greater than" if above else "at least"
        raise invalid(f"must be {left} {low:g} and at most {high:g} (given {value:g})", param=name)


def text_of(path: str, content: str | Sequence[Block] | None) -> str:
    """The text of a turn or system prompt; blocks are joined by a line end, empty ones leave no trace.

    Raises:
        Refusal: A block the engine cannot read, with its path.
    """
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    texts = []
    for index, block in enumerate(content):
        if block.type in DROPPED_BLOCKS:
            continue
        if block.type != "text":
            raise invalid(
                f"content blocks of type {block.type[:40]!r} are not supported by this engine, only 'text'",
                param=f"{path}.{index}.type",
                suggestion="Send the content as text",
            )
        if block.text is UNSET or block.text is None:
            raise invalid("field required", param=f"{path}.{index}.text")
        texts.append(block.text)
    return "\n".join(text for text in texts if text)


def role_of(path: str, role: str, known: Iterable[str]) -> str:
    """Refuse a role that is not known."""
    names = tuple(known)
    if role not in names:
        raise invalid(f"unknown role {role[:40]!r}; roles are {', '.join(names)}", param=f"{path}.role")
    return role


def stop_texts(name: str, given: str | Sequence[str] | None, limit: int) -> tuple[str, ...]:
    """Stop sequences as a tuple, within limits."""
    texts = () if given is None else (given,) if isinstance(given, str) else tuple(given)
    if len(texts) > limit:
        raise invalid(f"at most {limit} stop sequences are allowed (given {len(texts)})", param=name)
    for index, text in enumerate(texts):
        if not text:
            raise invalid("a stop sequence must not be empty", param=f"{name}.{index}")
        if (size := len(text.encode())) > STOP_BYTES:
            raise invalid(
                f"a stop sequence may have {STOP_BYTES} bytes (given {size})",
                param=f"{name}.{index}",
            )
    return texts


def sampling(
    options: GenerateOptions,
    *,
    temperature: float | None,
    temperature_limit: float,
    top_p: float | None,
    top_k: int | None,
    min_p: float | None,
    repetition_penalty: float | None,
    seed: int | None,
) -> None:
    """Check the sampling fields that both protocols have and put them into `options`.

    An absent temperature means 1, as in both protocols; 0 is greedy.
    """
    in_range("temperature", temperature, 0.0, temperature_limit)
    in_range("top_p", top_p, 0.0, 1.0, above=True)
    in_range("top_k", top_k, 0, COUNT_LIMIT)
    in_range("min_p", min_p, 0.0, 1.0)
    in_range("repetition_penalty", repetition_penalty, 0.1, 10.0)
    in_range("seed", seed, *SEED_LIMITS)
    options["temperature"] = 1.0 if temperature is None else temperature
    options["top_p"] = 1.0 if top_p is None else top_p
    options["top_k"] = top_k or 0
    options["min_p"] = min_p or 0.0
    options["repetition_penalty"] = 1.0 if repetition_penalty is None else repetition_penalty
    options["seed"] = None if seed is None else seed % (1 << 64)
