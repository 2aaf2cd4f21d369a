"""How to answer: the options of a request to the engine, and the turns of its prompt."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypedDict

from zlrs.types import Message

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from zlrs import _core
    from zlrs.results import Compute

DEFAULT_MAX_TOKENS = 256


class GenerateOptions(TypedDict, total=False):
    """How to answer. Left out, an option has the value named here.

    Attributes:
        max_tokens: At most so many new tokens (256).
        temperature: 0 … 2; 0 takes the likeliest token each time and is exactly repeatable (0).
        top_p: Keep the likeliest tokens that make up this share, 0 < p ≤ 1 (1 = all).
        top_k: Keep so many of the likeliest tokens (0 = all).
        min_p: Drop tokens less likely than this share of the likeliest one (0 = none).
        repetition_penalty: Divide scores of tokens already there (1 = off).
        seed: Repeat a sampled answer; a drawn one is reported in the result.
        stop: Texts that end the answer and are not part of it.
        logit_bias: Token id -> addition to its score, -100 … 100.
        deadline_ms: Give up after so long, time in the queue included.
        priority: `batch` makes way for `interactive` (`interactive`).
        tenant: 32 bytes; answers share computed prefixes, and the machine, by tenant (one for all).
        stream_mode: Tell in `Delta.events` every token when it is verified (`verified`), or guesses before
            that and what becomes of them too (`provisional`). The answer is the same (`plain`).
        compute: `aggressive` leaves out what the loaded exit heads allow (`exact`).
        require_exits: Fail where rows cannot leave early, or flap between leaving and staying (False).
        validation: What is looked for in the answer, and decoded again where it is likely wrong (nothing).
    """

    max_tokens: int
    temperature: float
    top_p: float
    top_k: int
    min_p: float
    repetition_penalty: float
    seed: int | None
    stop: Sequence[str]
    logit_bias: Mapping[int, float] | None
    deadline_ms: int | None
    priority: Literal["interactive", "batch"]
    tenant: bytes | None
    stream_mode: Literal["plain", "verified", "provisional"]
    compute: Compute
    require_exits: bool
    validation: _core.Validation | None


def turn_of(message: Message | Mapping[str, str]) -> tuple[str, str]:
    """Role and text of a message in either form."""
    if isinstance(message, Message):
        return message.role, message.content
    try:
        role: object = message["role"]
        content: object = message["content"]
    except (KeyError, TypeError) as error:
        raise TypeError(f"a message needs `role` and `content`, both texts (given {message!r})") from error
    if not isinstance(role, str) or not isinstance(content, str):
        raise TypeError(f"`role` and `content` of a message are texts (given {message!r})")
    return role, content


def require_known(options: Mapping[str, object]) -> None:
    """Refuse what is no option, before anything is computed."""
    known = GenerateOptions.__annotations__
    for name in options:
        if name not in known:
            raise TypeError(f"unknown option `{name}`; known: {', '.join(known)}")
