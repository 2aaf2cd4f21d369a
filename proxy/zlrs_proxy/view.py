"""What the sidecar itself reads in a request's body: a few fields, leniently. The graph reads on its own."""

from __future__ import annotations

import re
from typing import NamedTuple

import msgspec

_NOTHING = msgspec.Raw(b"null")
# This cannot stand inside a JSON string: its quotes would be escaped there.
_THOUGHTS = re.compile(rb'"type"\s*:\s*"(?:redacted_)?thinking"')


class _Message(msgspec.Struct):
    role: str = ""
    content: msgspec.Raw = _NOTHING
    reasoning_content: msgspec.Raw = _NOTHING
    reasoning_details: msgspec.Raw = _NOTHING


class _Request(msgspec.Struct):
    model: str = ""
    system: msgspec.Raw = _NOTHING
    messages: list[_Message] = []
    tools: msgspec.Raw = _NOTHING
    max_tokens: int | None = None
    max_completion_tokens: int | None = None


class _Named(msgspec.Struct):
    model: str = ""
    max_tokens: int | None = None
    max_completion_tokens: int | None = None


class _Block(msgspec.Struct):
    type: str = ""
    text: str = ""


class View(NamedTuple):
    """A request's body, as far as it is of interest here."""

    model: str
    first: bytes
    """The first message as it was written: what all requests of one conversation share."""
    last_user_text: str
    has_thoughts: bool
    """An earlier turn has thinking blocks, which only the model that made them takes back."""
    max_tokens: int | None
    max_tokens_name: str
    texts: tuple[msgspec.Raw, ...]
    """System, messages and tools, for counting."""


_DECODER = msgspec.json.Decoder(_Request)
_NAMED_DECODER = msgspec.json.Decoder(_Named)
_CONTENT = msgspec.json.Decoder(str | list[_Block] | None)


def view_of(body: bytes) -> View | None:
    """The view of a Messages or Chat body; None when it is none. Linear in its length."""
    try:
        request = _DECODER.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    messages = request.messages
    last_user = next((message for message in reversed(messages) if message.role == "user"), None)
    name = "max_tokens" if request.max_tokens is not None else "max_completion_tokens"
    return View(
        model=request.model,
        first=bytes(messages[0].content) if messages else b"",
        last_user_text=text_of(last_user.content) if last_user is not None else "",
        has_thoughts=any(message.role == "assistant" and _has_thoughts(message) for message in messages),
        max_tokens=request.max_tokens if request.max_tokens is not None else request.max_completion_tokens,
        max_tokens_name=name,
        texts=(request.system, *(message.content for message in messages), request.tools),
    )


def named_in(body: bytes) -> tuple[str, int]:
    """The model and `max_tokens` that a body names; empty and 0 where it names none or cannot be read."""
    try:
        named = _NAMED_DECODER.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return "", 0
    declared = named.max_tokens if named.max_tokens is not None else named.max_completion_tokens
    return named.model, declared or 0


def text_of(content: msgspec.Raw) -> str:
    """The text of a string or of a list of blocks; empty for anything else."""
    try:
        found = _CONTENT.decode(content)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return ""
    if found is None or isinstance(found, str):
        return found or ""
    return "\n".join(block.text for block in found if block.text)


def _has_thoughts(message: _Message) -> bool:
    if message.reasoning_content is not _NOTHING or message.reasoning_details is not _NOTHING:
        return True
    return _THOUGHTS.search(bytes(message.content)) is not None
