"""`POST /v1/messages`: the Messages protocol's bodies and events."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from zlrs.server import headers as request_headers
from zlrs.server.answer import answer, read
from zlrs.server.context import CONTEXT
from zlrs.server.errors import error_object
from zlrs.server.ids import new_id
from zlrs.server.messages_request import ask_of, parse
from zlrs.server.receipts import drafts
from zlrs.server.several import answer_several, total
from zlrs.server.token_events import fields_of, name_of
from zlrs.wire import message_event as event

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from aiohttp import web

    from zlrs.results import Completion, Correction, Finish, Token, Usage
    from zlrs.server.ask import Ask
    from zlrs.server.errors import Refusal
    from zlrs.server.receipts import ModelFacts

STOP_REASONS = {
    "stop": "end_turn",
    "stop_sequence": "stop_sequence",
    "max_tokens": "max_tokens",
    "context": "model_context_window_exceeded",
}


async def handle(request: web.Request) -> web.StreamResponse:
    """Answer a conversation, as one body or as events."""
    context = request.app[CONTEXT]
    started = context.monotonic()
    asked = request_headers.parse(request.headers, context.config.engine.compute)
    body, (parsed, ignored) = await read(request, parse)
    context.require_model(parsed.model)
    ask = ask_of(parsed, ignored)
    dialect = MessagesDialect(context.facts.name, ask)
    if ask.parts:
        return await answer_several(request, dialect, dialect, asked, started)
    return await answer(request, dialect, asked, body, started)


def stop_reason(finish: Completion | Finish, *, clamped: bool) -> str:
    """The protocol's word; a limit set by the window and not by the request is named as such."""
    if finish.finish_reason == "max_tokens" and clamped:
        return STOP_REASONS["context"]
    return STOP_REASONS[finish.finish_reason]


def usage(counted: Usage, *, writes_cache: bool) -> dict[str, object]:
    """Counted tokens as the protocol counts them: the three kinds of input add up to the prompt.

    Every prompt reads what an earlier one has computed. What it adds counts as written only where the request
    asks for caching by `cache_control`: all but the last token, which is always computed. So the same request
    sent again reads what this one read and wrote.
    """
    read = counted.cached_tokens
    written = max(0, counted.input_tokens - 1 - read) if writes_cache else 0
    return {
        **drafts(counted),
        "input_tokens": counted.input_tokens - read - written,
        "cache_creation_input_tokens": written,
        "cache_read_input_tokens": read,
        "output_tokens": counted.output_tokens,
        "service_tier": "standard",
    }


class MessagesDialect:
    """The Messages protocol for one request."""

    protocol: Literal["messages"] = "messages"
    ping = event({"type": "ping"})

    def __init__(self, model: str, ask: Ask) -> None:
        self.model = model
        self.ask = ask
        self.id = new_id("msg_")

    def whole(self, completion: Completion, facts: ModelFacts, *, clamped: bool) -> dict[str, object]:
        """A `message` object. There is always one text block, also for an empty answer."""
        del facts
        return {
            "id": self.id,
            "type": "message",
            "role": "assistant",
            "model": self.model,
            "content": [{"type": "text", "text": completion.text}],
            "stop_reason": stop_reason(completion, clamped=clamped),
            "stop_sequence": completion.stop_sequence,
            "usage": self._usage(completion.usage),
        }

    def _usage(self, counted: Usage) -> dict[str, object]:
        return usage(counted, writes_cache=self.ask.writes_cache)

    def opening(self, facts: ModelFacts, counted: Usage) -> bytes:
        """`message_start` and the one block's start."""
        del facts
        message: dict[str, object] = {
            "id": self.id,
            "type": "message",
            "role": "assistant",
            "model": self.model,
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": self._usage(counted),
        }
        block = {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}
        return event({"type": "message_start", "message": message}) + event(block) + self.ping

    def piece(self, text: str) -> bytes:
        """A text delta."""
        return event(
            {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text}}
        )

    def told(self, about: Token | Correction) -> bytes:
        """A `token` or `validation_update` event, beside the text deltas that clients add up."""
        return event({"type": name_of(about), **fields_of(about)})

    def closing(self, finish: Finish, end: Mapping[str, object] | None, *, clamped: bool) -> bytes:
        """Block stop, `message_delta` with cumulative usage and the `zlrs` object, `message_stop`."""
        delta: dict[str, object] = {
            "type": "message_delta",
            "delta": {
                "stop_reason": stop_reason(finish, clamped=clamped),
                "stop_sequence": finish.stop_sequence,
            },
            "usage": self._usage(finish.usage),
        }
        if end is not None:
            delta["zlrs"] = end
        return (
            event({"type": "content_block_stop", "index": 0}) + event(delta) + event({"type": "message_stop"})
        )

    def said(self, finish: Completion | Finish, *, clamped: bool) -> dict[str, object]:
        """Stop reason and usage of one of several answers."""
        return {
            "stop_reason": stop_reason(finish, clamped=clamped),
            "stop_sequence": finish.stop_sequence,
            "usage": self._usage(finish.usage),
        }

    def _ending_of(
        self, ends: Sequence[Completion | Finish], clamped: Sequence[bool]
    ) -> tuple[str, str | None]:
        """The first ending that is not the model's own, or that."""
        reasons = [
            stop_reason(end, clamped=is_clamped) for end, is_clamped in zip(ends, clamped, strict=True)
        ]
        index = next((index for index, reason in enumerate(reasons) if reason != "end_turn"), 0)
        return reasons[index], ends[index].stop_sequence

    def whole_of(self, completions: Sequence[Completion], clamped: Sequence[bool]) -> dict[str, object]:
        """A `message` object with one text block an answer."""
        reason, stop = self._ending_of(completions, clamped)
        return {
            "id": self.id,
            "type": "message",
            "role": "assistant",
            "model": self.model,
            "content": [{"type": "text", "text": completion.text} for completion in completions],
            "stop_reason": reason,
            "stop_sequence": stop,
            "usage": self._usage(total([completion.usage for completion in completions])),
        }

    def opening_of(self, counted: Usage, number: int) -> bytes:
        """`message_start` and the start of every block."""
        message: dict[str, object] = {
            "id": self.id,
            "type": "message",
            "role": "assistant",
            "model": self.model,
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": self._usage(counted),
        }
        text = {"type": "text", "text": ""}
        starts = [
            event({"type": "content_block_start", "index": index, "content_block": text})
            for index in range(number)
        ]
        return event({"type": "message_start", "message": message}) + b"".join(starts) + self.ping

    def piece_of(self, index: int, text: str) -> bytes:
        """A text delta of a block."""
        return event(
            {"type": "content_block_delta", "index": index, "delta": {"type": "text_delta", "text": text}}
        )

    def ended(self, index: int, finish: Finish, *, clamped: bool) -> bytes:
        """The end of a block."""
        del finish, clamped
        return event({"type": "content_block_stop", "index": index})

    def closing_of(
        self, finishes: Sequence[Finish], clamped: Sequence[bool], end: Mapping[str, object]
    ) -> bytes:
        """`message_delta` with all usage and the `zlrs` object, `message_stop`."""
        reason, stop = self._ending_of(finishes, clamped)
        delta: dict[str, object] = {
            "type": "message_delta",
            "delta": {"stop_reason": reason, "stop_sequence": stop},
            "usage": self._usage(total([finish.usage for finish in finishes])),
            "zlrs": end,
        }
        return event(delta) + event({"type": "message_stop"})

    def failure(self, refusal: Refusal, request_id: str) -> bytes:
        """An `error` event; the stream ends with it."""
        return event(error_object(refusal, self.protocol, request_id))
