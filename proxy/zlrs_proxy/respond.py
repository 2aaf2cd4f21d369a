"""Responses without headers of the library's own, and sent in as few writes as can be."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aiohttp import hdrs, web
from multidict import CIMultiDict

from zlrs.wire import error_body

if TYPE_CHECKING:
    from collections.abc import Iterable

    from zlrs.wire import Protocol
    from zlrs_proxy.refuse import Refusal


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
