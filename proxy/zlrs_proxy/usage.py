"""The tokens that an answer says it has used, in the shapes of both protocols, whole or streamed."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

_MARK = b'"usage"'


class Usage(NamedTuple):
    """Tokens of one answer. `input` is what was neither read from nor written to the upstream's cache."""

    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0

    @property
    def prompt(self) -> int:
        """All tokens of the prompt."""
        return self.input + self.cache_read + self.cache_write

    @property
    def total(self) -> int:
        """Everything."""
        return self.prompt + self.output


class _Details(msgspec.Struct):
    cached_tokens: int | None = None


class _Counts(msgspec.Struct):
    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_read_input_tokens: int | None = None
    cache_creation_input_tokens: int | None = None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    prompt_tokens_details: _Details | None = None


class _Message(msgspec.Struct):
    model: str | None = None
    usage: _Counts | None = None


class _Answer(msgspec.Struct):
    model: str | None = None
    usage: _Counts | None = None
    message: _Message | None = None


_DECODER = msgspec.json.Decoder(_Answer)


def usage_of(body: bytes) -> tuple[Usage | None, str | None]:
    """What a decoded answer used, and the model it names; None where it does not say.

    In a stream later counts replace earlier ones, field by field: they are sums so far.
    """
    if body.lstrip()[:1] == b"{":
        return _from([body])
    lines = body.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
    return _from([line[5:] for line in lines if line.startswith(b"data:") and _MARK in line])


def _from(objects: list[bytes]) -> tuple[Usage | None, str | None]:
    model: str | None = None
    fields: dict[str, int] = {}
    for one in objects:
        try:
            answer = _DECODER.decode(one)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            continue
        for holder in (answer, answer.message):
            if holder is None:
                continue
            model = holder.model or model
            counts = holder.usage
            if counts is not None:
                _merge(fields, counts)
    if not fields:
        return None, model
    if "prompt_tokens" in fields or "completion_tokens" in fields:
        # Chat counts cached tokens among the prompt's; Messages beside its input tokens.
        prompt, cached = fields.get("prompt_tokens", 0), fields.get("cached_tokens", 0)
        read = min(cached, prompt)
        return Usage(prompt - read, fields.get("completion_tokens", 0), read), model
    return (
        Usage(
            fields.get("input_tokens", 0),
            fields.get("output_tokens", 0),
            fields.get("cache_read_input_tokens", 0),
            fields.get("cache_creation_input_tokens", 0),
        ),
        model,
    )


def _merge(fields: dict[str, int], counts: _Counts) -> None:
    for name in counts.__struct_fields__:
        value = getattr(counts, name)
        if isinstance(value, int) and value >= 0:
            fields[name] = value
    details = counts.prompt_tokens_details
    if details is not None and details.cached_tokens is not None and details.cached_tokens >= 0:
        fields["cached_tokens"] = details.cached_tokens
