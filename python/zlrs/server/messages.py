"""`POST /v1/messages`: the Messages protocol's bodies and events."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from zlrs.server import headers as request_headers
from zlrs.server.answer import answer, read
from zlrs.server.context import CONTEXT
from zlrs.server.errors import error_object
from zlrs.server.ids import new_id
from zlrs.server.messages_request import ask_of, parse
from zlrs.wire import message_event as event

if TYPE_CHECKING:
    from collections.abc import Mapping

    from aiohttp import web

    from zlrs.results import Completion, Finish
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
    asked = request_headers.parse(request.headers)
    body, (parsed, ignored) = await read(request, parse)
    context.require_model(parsed.model)
    ask = ask_of(parsed, ignored)
    return await answer(request, MessagesDialect(context.facts.name, ask), asked, body, started)


def stop_reason(finish: Completion | Finish, *, clamped: bool) -> str:
    """The protocol's word; a limit set by the window and not by the request is named as such."""
    if finish.finish_reason == "max_tokens" and clamped:
        return STOP_REASONS["context"]
    return STOP_REASONS[finish.finish_reason]


def usage(input_tokens: int, output_tokens: int) -> dict[str, object]:
    """Counted tokens; nothing is read from or written to a prompt cache yet."""
    return {
        "input_tokens": input_tokens,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": 0,
        "output_tokens": output_tokens,
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
        counted = completion.usage
        return {
            "id": self.id,
            "type": "message",
            "role": "assistant",
            "model": self.model,
            "content": [{"type": "text", "text": completion.text}],
            "stop_reason": stop_reason(completion, clamped=clamped),
            "stop_sequence": completion.stop_sequence,
            "usage": usage(counted.input_tokens, counted.output_tokens),
        }

    def opening(self, facts: ModelFacts, input_tokens: int) -> bytes:
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
            "usage": usage(input_tokens, 0),
        }
        block = {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}
        return event({"type": "message_start", "message": message}) + event(block) + self.ping

    def piece(self, text: str) -> bytes:
        """A text delta."""
        return event(
            {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text}}
        )

    def closing(self, finish: Finish, end: Mapping[str, object] | None, *, clamped: bool) -> bytes:
        """Block stop, `message_delta` with cumulative usage and the `zlrs` object, `message_stop`."""
        delta: dict[str, object] = {
            "type": "message_delta",
            "delta": {
                "stop_reason": stop_reason(finish, clamped=clamped),
                "stop_sequence": finish.stop_sequence,
            },
            "usage": usage(finish.usage.input_tokens, finish.usage.output_tokens),
        }
        if end is not None:
            delta["zlrs"] = end
        return (
            event({"type": "content_block_stop", "index": 0}) + event(delta) + event({"type": "message_stop"})
        )

    def failure(self, refusal: Refusal, request_id: str) -> bytes:
        """An `error` event; the stream ends with it."""
        return event(error_object(refusal, self.protocol, request_id))
