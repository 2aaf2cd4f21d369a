"""An upstream that speaks both protocols, records every byte it gets, and fails in any way it is told."""

from __future__ import annotations

import asyncio
import gzip
import json
import zlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from aiohttp import web

from support.eventually import eventually

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable

FINISH, CLOSE, ABORT, HANG = "finish", "close", "abort", "hang"


@dataclass
class Seen:
    """One request as it arrived."""

    method: str
    path: str
    headers: tuple[tuple[bytes, bytes], ...]
    body: bytes = b""
    began: asyncio.Event = field(default_factory=asyncio.Event)
    gone: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when the caller closed the connection before the answer was whole."""

    def header(self, name: str) -> list[str]:
        """All values of a header, in order."""
        return [value.decode() for found, value in self.headers if found.decode().lower() == name.lower()]

    def json(self) -> dict:
        """The body as an object."""
        return json.loads(self.body)


@dataclass
class Reply:
    """One answer. `pieces` are sent in chunks, `raw` as they are on the wire, head and all."""

    status: int = 200
    headers: list[tuple[str, str]] = field(default_factory=list)
    body: bytes = b""
    pieces: list[bytes] | None = None
    raw: list[bytes] | None = None
    reason: str | None = None
    first_delay_s: float = 0.0
    gap_s: float = 0.0
    then: str = FINISH
    read_body: bool = True


class MockUpstream:
    """Listens on a free loopback port. `replies` are used up first, then `default` makes one."""

    def __init__(self) -> None:
        self.calls: list[Seen] = []
        self.replies: list[Reply] = []
        self.default: Callable[[Seen], Reply] = answer
        self.url = ""
        self.open_requests = 0
        self._runner: web.ServerRunner | None = None

    async def start(self, tls: ssl.SSLContext | None = None) -> None:
        """Listen."""
        server = web.Server(self._handle, handler_cancellation=True, auto_decompress=False, access_log=None)
        self._runner = web.ServerRunner(server, shutdown_timeout=0.2)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0, ssl_context=tls).start()
        self.url = f"http{'s' if tls else ''}://127.0.0.1:{self._runner.addresses[0][1]}"

    async def stop(self) -> None:
        """Close everything; safe to call twice."""
        if self._runner is not None:
            runner, self._runner = self._runner, None
            await runner.cleanup()

    async def called(self, count: int = 1) -> Seen:
        """Wait until so many requests have come; the last of them."""
        await eventually(lambda: len(self.calls) >= count, f"call {count}")
        return self.calls[count - 1]

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        seen = Seen(request.method, request.raw_path, request.raw_headers)
        self.calls.append(seen)
        self.open_requests += 1
        try:
            return await self._answer(request, seen)
        except asyncio.CancelledError:
            seen.gone.set()
            raise
        except ConnectionError:
            seen.gone.set()
            return web.StreamResponse()
        finally:
            self.open_requests -= 1

    async def _answer(self, request: web.BaseRequest, seen: Seen) -> web.StreamResponse:
        scripted = self.replies.pop(0) if self.replies else None
        if scripted is None or scripted.read_body:
            while piece := await request.content.readany():
                seen.body += piece
        seen.began.set()
        reply = scripted or self.default(seen)
        if reply.first_delay_s:
            await asyncio.sleep(reply.first_delay_s)
        if reply.raw is not None:
            return await self._raw(request, reply)
        response = web.StreamResponse(status=reply.status, reason=reply.reason)
        for name, value in reply.headers:
            response.headers.add(name, value)
        if reply.pieces is None:
            response.content_length = len(reply.body)
            await response.prepare(request)
            await response.write(reply.body)
        else:
            await response.prepare(request)
            for piece in reply.pieces:
                await response.write(piece)
                await asyncio.sleep(reply.gap_s)
        return await self._end(request, response, reply.then)

    async def _raw(self, request: web.BaseRequest, reply: Reply) -> web.StreamResponse:
        assert request.transport is not None
        for piece in reply.raw or []:
            request.transport.write(piece)
            await asyncio.sleep(reply.gap_s or 0.01)
        return await self._end(request, web.StreamResponse(), reply.then if reply.then != FINISH else CLOSE)

    @staticmethod
    async def _end(request: web.BaseRequest, response: web.StreamResponse, then: str) -> web.StreamResponse:
        if then == HANG:
            await asyncio.sleep(60)
        if then == FINISH:
            await response.write_eof()
            return response
        transport = request.transport
        if transport is not None:
            if then == ABORT:
                transport.abort()
            else:
                transport.close()
        # Cancelled by the closed connection, as a server is; nothing more is sent.
        await asyncio.sleep(60)
        return response


def answer(seen: Seen) -> Reply:
    """The right answer for the path: Messages, Chat, or an echo of what came."""
    path = seen.path.partition("?")[0]
    if path == "/v1/messages":
        return messages_reply(seen)
    if path == "/v1/chat/completions":
        return chat_reply(seen)
    return Reply(
        body=seen.body, headers=[("Content-Type", "application/octet-stream"), ("X-Echo-Path", seen.path)]
    )


def last_text(body: dict) -> str:
    """The text of the last message."""
    content = body["messages"][-1]["content"]
    return content if isinstance(content, str) else "".join(part.get("text", "") for part in content)


def messages_reply(seen: Seen, text: str | None = None, stop_reason: str = "end_turn") -> Reply:
    """A Messages answer, streamed when that was asked for."""
    body = seen.json()
    text = f"You asked: {last_text(body)}" if text is None else text
    head = [("request-id", "req_upstream_1"), ("anthropic-organization-id", "org_1")]
    if body.get("stream"):
        events = messages_events(text, body["model"], stop_reason)
        return Reply(pieces=events, headers=[("Content-Type", "text/event-stream; charset=utf-8"), *head])
    message = {
        "id": "msg_upstream_1", "type": "message", "role": "assistant", "model": body["model"],
        "content": [{"type": "text", "text": text}], "stop_reason": stop_reason, "stop_sequence": None,
        "usage": {"input_tokens": 11, "output_tokens": 7},
    }  # fmt: skip
    return Reply(body=dump(message), headers=[("Content-Type", "application/json"), *head])


def messages_events(
    text: str, model: str = "m", stop_reason: str = "end_turn", pieces: int = 4
) -> list[bytes]:
    """The events of a Messages stream, the text in a few deltas, with a ping."""
    message = {
        "id": "msg_upstream_1", "type": "message", "role": "assistant", "model": model, "content": [],
        "stop_reason": None, "stop_sequence": None, "usage": {"input_tokens": 11, "output_tokens": 1},
    }  # fmt: skip
    size = max(1, -(-len(text) // pieces))
    deltas = [text[i : i + size] for i in range(0, len(text), size)]
    empty = {"type": "text", "text": ""}
    ending = {"stop_reason": stop_reason, "stop_sequence": None}
    data = [
        {"type": "message_start", "message": message},
        {"type": "content_block_start", "index": 0, "content_block": empty},
        {"type": "ping"},
        *(
            {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": part}}
            for part in deltas
        ),
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": ending, "usage": {"output_tokens": 7}},
        {"type": "message_stop"},
    ]
    return [event(one["type"], one) for one in data]


def chat_reply(seen: Seen, text: str | None = None, finish_reason: str = "stop") -> Reply:
    """A Chat Completions answer, streamed when that was asked for."""
    body = seen.json()
    text = f"You asked: {last_text(body)}" if text is None else text
    head = [("x-request-id", "req_upstream_2"), ("openai-version", "2020-10-01")]
    if body.get("stream"):
        usage = bool((body.get("stream_options") or {}).get("include_usage"))
        pieces = chat_chunks(text, body["model"], finish_reason, usage=usage)
        return Reply(pieces=pieces, headers=[("Content-Type", "text/event-stream; charset=utf-8"), *head])
    said = {"role": "assistant", "content": text, "refusal": None}
    completion = {
        "id": "chatcmpl-upstream-1", "object": "chat.completion", "created": 1_700_000_000,
        "model": body["model"],
        "choices": [{"index": 0, "message": said, "logprobs": None, "finish_reason": finish_reason}],
        "usage": {"prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18},
    }  # fmt: skip
    return Reply(body=dump(completion), headers=[("Content-Type", "application/json"), *head])


def chat_chunks(
    text: str, model: str = "m", finish_reason: str = "stop", *, usage: bool = False
) -> list[bytes]:
    """The data lines of a Chat stream."""
    base = {
        "id": "chatcmpl-upstream-1",
        "object": "chat.completion.chunk",
        "created": 1_700_000_000,
        "model": model,
    }
    size = max(1, -(-len(text) // 4))
    parts = [
        {"role": "assistant", "content": ""},
        *({"content": text[i : i + size]} for i in range(0, len(text), size)),
    ]
    chunks: list[dict] = [
        {**base, "choices": [{"index": 0, "delta": part, "finish_reason": None}]} for part in parts
    ]
    chunks.append({**base, "choices": [{"index": 0, "delta": {}, "finish_reason": finish_reason}]})
    if usage:
        totals = {"prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18}
        chunks.append({**base, "choices": [], "usage": totals})
    return [b"data: " + dump(chunk) + b"\n\n" for chunk in chunks] + [b"data: [DONE]\n\n"]


def event(name: str, data: dict) -> bytes:
    """One server-sent event."""
    return f"event: {name}\ndata: ".encode() + dump(data) + b"\n\n"


def dump(value: dict) -> bytes:
    """Compact JSON with its characters as they are."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def compressed(reply: Reply, coding: str) -> Reply:
    """The same answer with a content coding."""
    pack = {"gzip": gzip.compress, "deflate": zlib.compress}[coding]
    headers = [*reply.headers, ("Content-Encoding", coding)]
    if reply.pieces is None:
        return Reply(status=reply.status, body=pack(reply.body), headers=headers)
    whole = pack(b"".join(reply.pieces))
    return Reply(status=reply.status, pieces=[whole[:10], whole[10:]], headers=headers)
