"""From upstream to client: the same status, headers and bytes, as they come, and an end that tells no lie."""

from __future__ import annotations

import asyncio
import socket
import struct
from typing import TYPE_CHECKING

from aiohttp import HttpVersion11

from zlrs_proxy.names import end_to_end, is_ours, to_text
from zlrs_proxy.respond import PlainResponse

if TYPE_CHECKING:
    from collections.abc import Callable

    from aiohttp import web

    from zlrs_proxy.call import Call
    from zlrs_proxy.direct import Answer
    from zlrs_proxy.ping import Pinger

_NEVER_BACK = frozenset({b"authorization", b"x-api-key", b"api-key", b"proxy-authorization"})
_FLUSH_SECONDS = 10.0


def head(
    answer: Answer,
    receipts: list[tuple[str, str]],
    *,
    keep_ours: bool,
    secret: str | None,
) -> PlainResponse:
    """The response head: the upstream's, without what ends at this hop, plus our receipts.

    Args:
        answer: The upstream's answer.
        receipts: Headers of ours.
        keep_ours: The upstream is a zlrs and may speak in our name, where we do not say it ourselves.
        secret: The upstream key we added, which must not come back to callers.
    """
    said = {name.lower().encode() for name, _ in receipts} if keep_ours else frozenset()
    kept = [
        pair
        for pair in end_to_end(answer.raw_headers, _NEVER_BACK)
        if not is_ours(pair[0]) or (keep_ours and pair[0].lower() not in said)
    ]
    if secret is not None:
        needle = secret.encode()
        kept = [pair for pair in kept if needle not in pair[1]]
    headers, _ = to_text(kept)
    for name, value in receipts:
        headers.add(name, value)
    if headers.get("Content-Type", "").lower().startswith("text/event-stream"):
        # Servers in front of us that collect answers before they send them are told not to.
        headers.setdefault("X-Accel-Buffering", "no")
    return PlainResponse(answer.status, answer.reason or "", headers)


async def relay(
    request: web.BaseRequest,
    response: PlainResponse,
    call: Call,
    stall_seconds: float,
    first_byte: Callable[[], None],
    pinger: Callable[[], Pinger | None],
) -> None:
    """Stream the body. Whole small answers leave in one write; the head never waits for the body.

    Raises:
        UpstreamError: The answer broke off.
        ConnectionError: The client has gone.
    """
    content = (await call.opened()).content
    transport = request.transport
    if transport is None:
        raise ConnectionResetError("the client has gone")
    if content.is_eof() and content.exception() is None and response.can_be_sent_at_once(request):
        piece = await call.piece()
        call.wait_for_client(stall_seconds, transport.abort)
        await response.send(request, piece)
        first_byte()
        return
    await _pass_on(request, response, call, stall_seconds, first_byte, pinger)


async def _pass_on(
    request: web.BaseRequest,
    response: PlainResponse,
    call: Call,
    stall_seconds: float,
    first_byte: Callable[[], None],
    pinger: Callable[[], Pinger | None],
) -> None:
    """`relay` for an answer that is not whole yet."""
    content = (await call.opened()).content
    transport = request.transport
    if transport is None:
        raise ConnectionResetError("the client has gone")
    if "Content-Length" not in response.headers and request.version < HttpVersion11:
        response.force_close()
    writer = await response.prepare(request)
    if writer is not None and not content.total_bytes and not content.at_eof():
        writer.send_headers()
        first_byte()
    pings = pinger()
    is_chunked = response.headers.get("Transfer-Encoding") == "chunked"
    try:
        while piece := await call.piece():
            call.wait_for_client(stall_seconds, transport.abort)
            if content.at_eof():
                await response.write_eof(piece)
            else:
                await response.write(piece)
            first_byte()
            if pings is not None:
                pings.sent(piece)
            elif writer is not None and is_chunked:
                await call.hand_on(_chunks_to(request, transport))
                if request.protocol.writing_paused:
                    call.wait_for_client(stall_seconds, transport.abort)
                    await writer.drain()
    finally:
        if pings is not None:
            pings.stop()
    call.wait_for_client(stall_seconds, transport.abort)
    await response.write_eof()
    first_byte()


def _chunks_to(request: web.BaseRequest, transport: asyncio.Transport) -> Callable[[bytes], bool]:
    """Writes pieces as chunks, after the head; false when the client takes no more for now."""
    protocol, writer = request.protocol, request.writer

    def write(piece: bytes) -> bool:
        if transport.is_closing():
            return False
        sent = b"%x\r\n%b\r\n" % (len(piece), piece)
        transport.write(sent)
        writer.output_size += len(sent)
        return not protocol.writing_paused

    return write


def break_off(request: web.BaseRequest) -> None:
    """End a started answer so that no client can take it for whole.

    Bodies with a length or in chunks are seen to be cut when the connection closes, after what was sent has
    arrived. A body that only ends with its connection needs a reset.
    """
    transport = request.transport
    if transport is None:
        return
    if request.version < HttpVersion11:
        raw = transport.get_extra_info("socket")
        if raw is not None:
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        transport.abort()
        return
    transport.close()
    asyncio.get_running_loop().call_later(_FLUSH_SECONDS, transport.abort)
