"""Refusals and failures in the shape of the protocol that was spoken."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import msgspec
from zlrs.errors import ZlrsError

if TYPE_CHECKING:
    from collections.abc import Mapping

Protocol = Literal["messages", "chat"]

OVERLOADED = "overloaded_error"
RATE_LIMITED_STATUS = 429


class Refusal(Exception):  # noqa: N818 - a refusal is an answer, raised where it is decided
    """A request that is answered with an error.

    Attributes:
        type: `error.type` from the catalogue.
        status: HTTP status.
        message: What, limit, given.
        suggestion: What to do; may be empty.
        param: The body field or header at fault.
        code: A code that clients of the protocol know, e.g. `context_length_exceeded`.
        headers: Further response headers, e.g. `retry-after`.
    """

    def __init__(
        self,
        type_: str,
        status: int,
        message: str,
        *,
        suggestion: str = "",
        param: str | None = None,
        code: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.type = type_
        self.status = status
        self.message = message
        self.suggestion = suggestion
        self.param = param
        self.code = code
        self.headers = dict(headers or {})


def invalid(
    message: str, *, param: str | None = None, suggestion: str = "", code: str | None = None
) -> Refusal:
    """400: the request cannot be answered as it stands. With a field, the message begins with its path."""
    text = f"{param}: {message}" if param else message
    return Refusal("invalid_request_error", 400, text, param=param, suggestion=suggestion, code=code)


def unavailable(message: str, *, retry_after_seconds: int) -> Refusal:
    """529 (Chat: 429): not now; the same request may succeed later."""
    return Refusal(OVERLOADED, 529, message, headers=retry_headers(retry_after_seconds), code="overloaded")


def retry_headers(seconds: int) -> dict[str, str]:
    """What both official clients obey."""
    return {"retry-after": str(seconds), "x-should-retry": "true"}


def as_refusal(error: BaseException) -> Refusal:
    """Any failure of a handler as a refusal; what is not known becomes a 500 without details."""
    if isinstance(error, Refusal):
        return error
    if isinstance(error, ZlrsError):
        headers = retry_headers(1) if error.type == OVERLOADED else {}
        return Refusal(
            error.type,
            error.status,
            error.message,
            suggestion=error.suggestion or "",
            headers=headers,
            code=getattr(error, "code", None),
        )
    return Refusal("api_error", 500, "The server failed on this request; its log has the reason.")


def status_for(refusal: Refusal, protocol: Protocol) -> int:
    """The HTTP status: 529 exists only in the Messages API, Chat clients know 429 for a full queue."""
    return RATE_LIMITED_STATUS if protocol == "chat" and refusal.status == 529 else refusal.status  # noqa: PLR2004


def error_object(refusal: Refusal, protocol: Protocol, request_id: str) -> dict[str, object]:
    """The error body (also the data of an error event) of a protocol."""
    message = f"{refusal.message}. {refusal.suggestion}" if refusal.suggestion else refusal.message
    if protocol == "chat":
        chat: dict[str, object] = {
            "message": message,
            "type": refusal.type,
            "param": refusal.param,
            "code": refusal.code,
        }
        return {"error": chat | _extras(refusal, with_code=False)}
    error: dict[str, object] = {"type": refusal.type, "message": message}
    return {"type": "error", "error": error | _extras(refusal, with_code=True), "request_id": request_id}


def _extras(refusal: Refusal, *, with_code: bool) -> dict[str, object]:
    extras: dict[str, object] = {}
    if refusal.suggestion:
        extras["suggestion"] = refusal.suggestion
    if with_code and refusal.code:
        extras["code"] = refusal.code
    return extras


def encode(value: object) -> bytes:
    """Compact JSON."""
    return msgspec.json.encode(value)
