"""`POST /v1/chat/completions`: the Chat protocol's bodies and chunks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from zlrs.server import headers as request_headers
from zlrs.server.answer import answer, read
from zlrs.server.chat_request import ask_of, parse
from zlrs.server.context import CONTEXT
from zlrs.server.errors import error_object
from zlrs.server.ids import new_id
from zlrs.server.receipts import drafts
from zlrs.server.several import answer_several, total
from zlrs.server.sse import CHAT_PING
from zlrs.server.token_events import fields_of, name_of
from zlrs.wire import CHAT_DONE
from zlrs.wire import chat_chunk as chunk

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from aiohttp import web

    from zlrs.results import Completion, Correction, Finish, Token, Usage
    from zlrs.server.ask import Ask
    from zlrs.server.errors import Refusal
    from zlrs.server.receipts import ModelFacts

FINISH_REASONS = {"stop": "stop", "stop_sequence": "stop", "max_tokens": "length", "context": "length"}


async def handle(request: web.Request) -> web.StreamResponse:
    """Answer a conversation, as one body or as chunks."""
    context = request.app[CONTEXT]
    started = context.monotonic()
    asked = request_headers.parse(request.headers, context.config.engine.compute)
    body, (parsed, ignored) = await read(request, parse)
    context.require_model(parsed.model)
    ask = ask_of(parsed, ignored, vocabulary=context.facts.vocabulary)
    dialect = ChatDialect(
        context.facts.name, ask, created=int(context.wall()), fingerprint=context.facts.fingerprint
    )
    if ask.parts:
        return await answer_several(request, dialect, dialect, asked, started)
    return await answer(request, dialect, asked, body, started)


def usage(counted: Usage) -> dict[str, object]:
    """Counted tokens."""
    return {
        **drafts(counted),
        "prompt_tokens": counted.input_tokens,
        "completion_tokens": counted.output_tokens,
        "total_tokens": counted.input_tokens + counted.output_tokens,
        "prompt_tokens_details": {"cached_tokens": counted.cached_tokens},
        "completion_tokens_details": {"reasoning_tokens": 0},
    }


class ChatDialect:
    """The Chat protocol for one request."""

    protocol: Literal["chat"] = "chat"
    ping = CHAT_PING

    def __init__(self, model: str, ask: Ask, *, created: int, fingerprint: str) -> None:
        self.model = model
        self.ask = ask
        self.id = new_id("chatcmpl-")
        self.created = created
        self.fingerprint = fingerprint

    def _object(self, kind: str, choices: list[dict[str, object]]) -> dict[str, object]:
        return {
            "id": self.id,
            "object": kind,
            "created": self.created,
            "model": self.model,
            "system_fingerprint": self.fingerprint,
            "choices": choices,
        }

    def _chunk(
        self,
        delta: dict[str, object],
        finish_reason: str | None,
        index: int = 0,
        ours: Mapping[str, object] | None = None,
    ) -> bytes:
        choice: dict[str, object] = {
            "index": index,
            "delta": delta,
            "logprobs": None,
            "finish_reason": finish_reason,
        }
        data = self._object("chat.completion.chunk", [choice])
        if self.ask.include_usage:
            data["usage"] = None
        if ours is not None:
            data["zlrs"] = ours
        return chunk(data)

    def whole(self, completion: Completion, facts: ModelFacts, *, clamped: bool) -> dict[str, object]:
        """A `chat.completion` object."""
        del facts, clamped
        choice: dict[str, object] = {
            "index": 0,
            "message": {"role": "assistant", "content": completion.text, "refusal": None},
            "logprobs": None,
            "finish_reason": FINISH_REASONS[completion.finish_reason],
        }
        return {**self._object("chat.completion", [choice]), "usage": usage(completion.usage)}

    def opening(self, facts: ModelFacts, counted: Usage) -> bytes:
        """The chunk with the role."""
        del facts, counted
        return self._chunk({"role": "assistant", "content": "", "refusal": None}, None)

    def piece(self, text: str) -> bytes:
        """A chunk of text."""
        return self._chunk({"content": text}, None)

    def told(self, about: Token | Correction) -> bytes:
        """A chunk without text whose `zlrs` object has the event: Chat has no events of other names."""
        return self._chunk({}, None, ours={name_of(about): fields_of(about)})

    def closing(self, finish: Finish, end: Mapping[str, object] | None, *, clamped: bool) -> bytes:
        """The chunk with the finish reason, the usage chunk where asked for, `[DONE]`."""
        del clamped
        last = self._chunk({}, FINISH_REASONS[finish.finish_reason])
        if self.ask.include_usage:
            data = {**self._object("chat.completion.chunk", []), "usage": usage(finish.usage)}
            if end is not None:
                data["zlrs"] = end
            last += chunk(data)
        return last + CHAT_DONE

    def said(self, finish: Completion | Finish, *, clamped: bool) -> dict[str, object]:
        """Finish reason and usage of one of several answers."""
        del clamped
        return {"finish_reason": FINISH_REASONS[finish.finish_reason], "usage": usage(finish.usage)}

    def whole_of(self, completions: Sequence[Completion], clamped: Sequence[bool]) -> dict[str, object]:
        """A `chat.completion` object with one choice an answer."""
        del clamped
        choices: list[dict[str, object]] = [
            {
                "index": index,
                "message": {"role": "assistant", "content": completion.text, "refusal": None},
                "logprobs": None,
                "finish_reason": FINISH_REASONS[completion.finish_reason],
            }
            for index, completion in enumerate(completions)
        ]
        counted = total([completion.usage for completion in completions])
        return {**self._object("chat.completion", choices), "usage": usage(counted)}

    def opening_of(self, counted: Usage, number: int) -> bytes:
        """A chunk with the role for every choice."""
        del counted
        role: dict[str, object] = {"role": "assistant", "content": "", "refusal": None}
        return b"".join(self._chunk(role, None, index) for index in range(number))

    def piece_of(self, index: int, text: str) -> bytes:
        """A chunk of text of a choice."""
        return self._chunk({"content": text}, None, index)

    def ended(self, index: int, finish: Finish, *, clamped: bool) -> bytes:
        """The chunk with a choice's finish reason."""
        del clamped
        return self._chunk({}, FINISH_REASONS[finish.finish_reason], index)

    def closing_of(
        self, finishes: Sequence[Finish], clamped: Sequence[bool], end: Mapping[str, object]
    ) -> bytes:
        """The usage chunk where asked for, `[DONE]`."""
        del clamped
        if not self.ask.include_usage:
            return CHAT_DONE
        counted = total([finish.usage for finish in finishes])
        data = {**self._object("chat.completion.chunk", []), "usage": usage(counted), "zlrs": end}
        return chunk(data) + CHAT_DONE

    def failure(self, refusal: Refusal, request_id: str) -> bytes:
        """A chunk with the error; the stream ends with it, without `[DONE]`."""
        return chunk(error_object(refusal, self.protocol, request_id))
