"""Answers of our own that are not from the graph: an error, in the shape of the protocol it was asked in."""

from __future__ import annotations

import json
from enum import Enum


class Protocol(Enum):
    """Which shape an error has."""

    MESSAGES = "messages"
    CHAT = "chat"


class Refusal(Exception):  # noqa: N818 - a refusal is an answer, raised where it is decided
    """Ends a request with an error of ours. Nothing has been sent yet."""

    def __init__(
        self,
        status: int,
        kind: str,
        message: str,
        *,
        suggestion: str | None = None,
        headers: tuple[tuple[str, str], ...] = (),
        close: bool = False,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.kind = kind
        self.message = message
        self.suggestion = suggestion
        self.headers = headers
        self.close = close
        """Whether the connection ends with this answer, because what follows on it cannot be trusted."""


def invalid(
    message: str, *, suggestion: str | None = None, status: int = 400, close: bool = False
) -> Refusal:
    """A request that is wrong whoever would answer it."""
    return Refusal(status, "invalid_request_error", message, suggestion=suggestion, close=close)


def body(refusal: Refusal, protocol: Protocol, request_id: str) -> bytes:
    """The error body: Messages and Chat each have their own."""
    error: dict[str, str | None] = {"type": refusal.kind, "message": refusal.message}
    if protocol is Protocol.CHAT:
        error |= {"param": None, "code": refusal.kind}
    if refusal.suggestion is not None:
        error["suggestion"] = refusal.suggestion
    if protocol is Protocol.CHAT:
        return json.dumps({"error": error}).encode()
    return json.dumps({"type": "error", "error": error, "request_id": request_id}).encode()
