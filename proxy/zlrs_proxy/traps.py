"""`max_tokens` against what is configured: refused when too much, lowered where that is asked for."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import msgspec

from zlrs_proxy.refuse import Refusal, invalid

if TYPE_CHECKING:
    from zlrs_proxy.memory import Memory
    from zlrs_proxy.settings import Settings
    from zlrs_proxy.view import View

_SHARE = 0.75
_SHARE_SHORT = 0.6
# Strings, and what opens, closes or separates: enough to find the members of the outermost object.
_TOKEN = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|[{}\[\],:]|[^\s"{}\[\],:]+')


def check_window(settings: Settings, memory: Memory, view: View) -> Refusal | None:
    """The refusal of an answer length that leaves a prompt too little of the configured window."""
    window, asked = settings.window_tokens, view.max_tokens
    if window is None or asked is None:
        return None
    is_short = memory.is_short()
    share = _SHARE_SHORT if is_short else _SHARE
    limit = int(window * share)
    if asked <= limit:
        return None
    why = ", as memory is short" if is_short else ""
    return invalid(
        f"{view.max_tokens_name} is {asked}; at most {limit} are allowed: {share:.0%} of the window "
        f"of {window} tokens{why}.",
        suggestion=f"Send {view.max_tokens_name} of {limit} or less, or raise proxy.window_tokens.",
    )


def cut(body: bytes, name: str, limit: int) -> bytes | None:
    """The body with one number of its outermost object lowered; every other byte stays.

    None when the number is not there exactly once, or the result is not the same object but for it.
    """
    wanted = b'"' + name.encode() + b'"'
    depth = 0
    place: tuple[int, int] | None = None
    previous: list[bytes] = []
    for match in _TOKEN.finditer(body):
        token = match[0]
        if depth == 1 and previous[-2:] == [wanted, b":"]:
            if place is not None:
                return None
            place = match.span()
        if token in {b"{", b"["}:
            depth += 1
        elif token in {b"}", b"]"}:
            depth -= 1
        previous = [*previous[-1:], token]
    if place is None:
        return None
    changed = body[: place[0]] + str(limit).encode() + body[place[1] :]
    return changed if _same_but_for(body, changed, name, limit) else None


def _same_but_for(body: bytes, changed: bytes, name: str, limit: int) -> bool:
    try:
        before = msgspec.json.decode(body, type=dict[str, msgspec.Raw])
        after = msgspec.json.decode(changed, type=dict[str, msgspec.Raw])
    except (msgspec.DecodeError, UnicodeDecodeError):
        return False
    before[name] = msgspec.Raw(str(limit).encode())
    return {key: bytes(value) for key, value in before.items()} == {
        key: bytes(value) for key, value in after.items()
    }
