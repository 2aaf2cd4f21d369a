"""Responses without headers of the library's own, and sent in as few writes as can be."""

from __future__ import annotations

import re
import time
from email.utils import formatdate
from functools import lru_cache
from typing import TYPE_CHECKING

from aiohttp import HttpVersion11, hdrs, web
from multidict import CIMultiDict

from zlrs.wire import error_body

if TYPE_CHECKING:
    from collections.abc import Iterable

    from zlrs.wire import Protocol
    from zlrs_proxy.refuse import Refusal

_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
_BODILESS = frozenset({204, 304})
_FIRST_FINAL = 200


@lru_cache(maxsize=2)
def http_date(second: int) -> str:
    """A second since 1970 as headers say it."""
    return formatdate(second, usegmt=True)


class PlainResponse(web.StreamResponse):
    """A response with exactly the headers it was given, plus framing and `Date`.

    The head waits for the first piece of the body, so that both leave in one write.
    """

    _send_headers_immediately = False

    def __init__(
        self, status: int, reason: str | None, headers: CIMultiDict[str], *, whole: bytes | None = None
    ) -> None:
        super().__init__(status=status, reason=reason, headers=headers)
        self._whole = whole
        if whole is not None:
            self.content_length = len(whole)

    @property
    def whole(self) -> bytes | None:
        """The body, where the response was given whole and has not been sent."""
        return self._whole

    def can_be_sent_at_once(self, request: web.BaseRequest) -> bool:
        """Whether `to_bytes` may write head and body together: there is a body, and its length is said."""
        return (
            hdrs.CONTENT_LENGTH in self.headers
            and request.version == HttpVersion11
            and request.method != hdrs.METH_HEAD
            and self.status >= _FIRST_FINAL
            and self.status not in _BODILESS
        )

    def to_bytes(self, body: bytes, *, keep_alive: bool) -> bytes:
        """Head and body as they travel in HTTP/1.1. The headers already say the body's length.

        Raises:
            ValueError: A header has a control character.
        """
        headers = self.headers
        if hdrs.DATE not in headers:
            headers[hdrs.DATE] = http_date(int(time.time()))
        if not keep_alive and hdrs.CONNECTION not in headers:
            headers[hdrs.CONNECTION] = "close"
        lines = [f"HTTP/1.1 {self.status} {self.reason}"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        if _CONTROL.search("".join(lines)) is not None:
            raise ValueError("a header of the answer has a control character")
        lines += ("", "")
        return "\r\n".join(lines).encode() + body

    async def send(self, request: web.BaseRequest, body: bytes) -> None:
        """Write head and body at once, and be done; where `can_be_sent_at_once`.

        Raises:
            ConnectionError: The client has gone.
        """
        transport = request.transport
        if transport is None or transport.is_closing():
            raise ConnectionResetError("the client has gone")
        if self._keep_alive is None:
            self._keep_alive = request.keep_alive
        sent = self.to_bytes(body, keep_alive=self._keep_alive)
        transport.write(sent)
        request.writer.output_size += len(sent)
        self._whole = None
        self._eof_sent = True
        if request.protocol.writing_paused:
            await request.writer.drain()

    async def _prepare_headers(self) -> None:
        made_up = [name for name in (hdrs.SERVER, hdrs.CONTENT_TYPE) if name not in self.headers]
        await super()._prepare_headers()
        for name in made_up:
            self.headers.popall(name, None)

    async def write_eof(self, data: bytes = b"") -> None:
        """End the body; a response that was given whole is sent here, head and body together."""
        if self._whole is not None:
            data, self._whole = self._whole, None
        if self._must_be_empty_body:
            data = b""
        await super().write_eof(data)


def whole_response(
    status: int, content: bytes, content_type: str, headers: Iterable[tuple[str, str]]
) -> PlainResponse:
    """A response whose body is known now."""
    fields: CIMultiDict[str] = CIMultiDict([(hdrs.CONTENT_TYPE, content_type)])
    for name, value in headers:
        fields.add(name, value)
    return PlainResponse(status, None, fields, whole=content)


def refusal_response(
    refusal: Refusal, protocol: Protocol, request_id: str, headers: Iterable[tuple[str, str]]
) -> PlainResponse:
    """An error of ours as a response."""
    content = error_body(refusal.error, protocol, request_id)
    response = whole_response(
        refusal.error.status,
        content,
        "application/json",
        [*headers, *refusal.headers, ("Cache-Control", "no-store")],
    )
    if refusal.close:
        response.force_close()
    return response
