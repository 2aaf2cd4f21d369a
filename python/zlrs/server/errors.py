"""Refusals and failures on their way to the client, in the shape of the protocol that was spoken."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from zlrs import wire
from zlrs.errors import CLASSES, APIError, InvalidRequestError, OverloadedError, ZlrsError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zlrs.wire import Protocol

OVERLOADED_STATUS = 529
RATE_LIMITED_STATUS = 429


class Refusal(Exception):  # noqa: N818 - a refusal is an answer, raised where it is decided
    """A request that is answered with an error.

    Attributes:
        error: Type, status, message, suggestion and code, from the catalogue.
        param: The body field at fault.
        headers: Further response headers, e.g. `retry-after`.
    """

    def __init__(
        self, error: ZlrsError, *, param: str | None = None, headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(error.message)
        self.error = error
        self.param = param
        self.headers = dict(headers or {})


def refuse(
    type_: str,
    message: str,
    *,
    status: int | None = None,
    suggestion: str | None = None,
    param: str | None = None,
    headers: Mapping[str, str] | None = None,
) -> Refusal:
    """A refusal of a catalogue type; what is left out has the catalogue's value."""
    error = CLASSES[type_](message, suggestion=suggestion, status=status)
    return Refusal(error, param=param, headers=headers)


def invalid(
    message: str, *, param: str | None = None, suggestion: str | None = None, code: str | None = None
) -> Refusal:
    """400: the request cannot be answered as it stands. With a field, the message begins with its path."""
    text = f"{param}: {message}" if param else message
    return Refusal(InvalidRequestError(text, suggestion=suggestion, code=code), param=param)


def overloaded(message: str, *, retry_after_seconds: int, suggestion: str | None = None) -> Refusal:
    """529 (Chat: 429): not now; the same request may succeed later."""
    error = OverloadedError(message, suggestion=suggestion)
    return Refusal(error, headers=retry_headers(retry_after_seconds))


def retry_headers(seconds: int) -> dict[str, str]:
    """What both official clients obey."""
    return {"retry-after": str(seconds), "x-should-retry": "true"}


def as_refusal(error: BaseException) -> Refusal:
    """Any failure of a handler as a refusal; what is not known becomes a 500 without details."""
    if isinstance(error, Refusal):
        return error
    if isinstance(error, ZlrsError) and error.status:
        headers = retry_headers(1) if isinstance(error, OverloadedError) else {}
        return Refusal(error, headers=headers)
    return Refusal(APIError("the server failed on this request; its log has the reason"))


def status_for(refusal: Refusal, protocol: Protocol) -> int:
    """The HTTP status: 529 exists only in the Messages API, Chat clients know 429 for a full queue."""
    status = refusal.error.status
    return RATE_LIMITED_STATUS if protocol == "chat" and status == OVERLOADED_STATUS else status


def error_object(refusal: Refusal, protocol: Protocol, request_id: str) -> dict[str, object]:
    """The error body (also the data of an error event) of a protocol."""
    return wire.error_object(refusal.error, protocol, request_id, param=refusal.param)


def encode(value: object) -> bytes:
    """Compact JSON."""
    return msgspec.json.encode(value)
