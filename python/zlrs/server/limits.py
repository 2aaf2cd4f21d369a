"""Reading a request body: size before buffering, a deadline, strict JSON with the place of any fault."""

from __future__ import annotations

import asyncio
import re
from typing import TypeVar

import msgspec
from aiohttp import web

from zlrs.server.errors import Refusal, invalid, refuse

Body = TypeVar("Body", bound=msgspec.Struct)

NEARBY = 20
"""Bytes of the body shown around a fault."""


def too_large(limit_bytes: int, given: str) -> Refusal:
    """413 with both numbers."""
    return refuse(
        "request_too_large",
        f"the request body may have {limit_bytes} bytes, this one has {given}",
        suggestion="Send less text, or raise `server.body_limit_bytes`",
        headers={"connection": "close"},
    )


def require_json(request: web.Request) -> None:
    """Refuse anything but an uncompressed JSON body."""
    if request.content_type != "application/json":
        raise invalid(
            f"content-type must be application/json (given {request.headers.get('content-type', 'none')!r})",
            suggestion="Set the header `content-type: application/json`",
        )
    coding = request.headers.get("content-encoding", "identity")
    if coding.lower() != "identity":
        raise invalid(
            f"content-encoding {coding!r} is not supported", suggestion="Send the body uncompressed"
        )


def require_size(request: web.Request, limit_bytes: int) -> None:
    """Refuse by the stated length, before a byte of the body is read."""
    if request.content_length is not None and request.content_length > limit_bytes:
        raise too_large(limit_bytes, str(request.content_length))


async def read_body(request: web.Request, *, limit_bytes: int, seconds: float) -> bytes:
    """The whole body.

    Raises:
        Refusal: 413 over the limit (counted while reading where no length was stated), 408 when it does not
            arrive in time, 400 when it ends early.
    """
    require_size(request, limit_bytes)
    try:
        return await asyncio.wait_for(request.read(), seconds)
    except web.HTTPRequestEntityTooLarge as error:
        raise too_large(limit_bytes, f"more than {limit_bytes}") from error
    except asyncio.TimeoutError as error:
        raise refuse(
            "timeout_error",
            f"the request body did not arrive within {seconds:g} s",
            status=408,
            headers={"connection": "close"},
        ) from error


def decode(body: bytes, type_: type[Body]) -> Body:
    """Parse a body.

    Raises:
        Refusal: 400 with line, column and byte for malformed JSON, with the field's path for a wrong type.
    """
    try:
        return msgspec.json.decode(body, type=type_)
    except msgspec.ValidationError as error:
        raise _wrong_type(str(error)) from error
    except msgspec.DecodeError as error:
        raise _malformed(body, str(error)) from error
    except RecursionError as error:
        raise invalid("the body is nested too deeply", suggestion="Send flatter JSON") from error


def _wrong_type(problem: str) -> Refusal:
    """`messages.0.content: expected …, got …` from the parser's `… - at `$.messages[0].content``."""
    text, _, place = problem.partition(" - at `$")
    path = re.sub(r"\[(\d+)\]", r".\1", place.rstrip("`")).replace("[...]", ".*").lstrip(".")
    missing = re.fullmatch(r"Object missing required field `(\w+)`", text)
    if missing:
        field = f"{path}.{missing[1]}" if path else missing[1]
        return invalid("field required", param=field)
    readable = (text[:1].lower() + text[1:]).replace(" | null", "").replace(" | ", " or ")
    if not path:
        return invalid(f"the body: {readable}")
    return invalid(readable.replace("`object or array`", "`array`"), param=path)


def _malformed(body: bytes, problem: str) -> Refusal:
    """Where the JSON ends to be JSON, in the terms of an editor."""
    what = re.sub(r" \(byte \d+\)$", "", problem).removeprefix("JSON is malformed: ")
    found = re.search(r"\(byte (\d+)\)$", problem)
    position = int(found[1]) if found else _undecodable(body)
    before = body[:position]
    line = before.count(b"\n") + 1
    column = position - (before.rfind(b"\n") + 1) + 1
    start = max(0, position - NEARBY)
    near = body[start : position + NEARBY].decode("utf-8", "backslashreplace")
    return invalid(
        f"the body is not valid JSON: {what[:1].lower()}{what[1:]} at line {line}, column {column} "
        f"(byte {position}), near {near!r}"
    )


def _undecodable(body: bytes) -> int:
    """Offset of the first byte that is not UTF-8, or the end."""
    try:
        body.decode("utf-8")
    except UnicodeDecodeError as error:
        return error.start
    return len(body)
