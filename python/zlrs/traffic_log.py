"""Logs of traffic: requests, and answers where they were kept, out of the shapes that are common.

A log is JSON lines, one JSON array, or a HAR file. A record may be

- a request body itself (`{"model": …, "messages": […]}`), also with its answer beside it under `response`;
- `{"request": …, "response": …}`, each a body or a text of one, or with the body under `body`;
- a line of a batch file (`{"url": …, "body": …}`) with the result under `response`;
- an entry of a HAR file.

The protocol is read off the URL where there is one, else off the body: a `system` field at the top, or an
answer of type `message`, is Messages; anything else with `messages` is Chat.
"""

from __future__ import annotations

import json
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple

from zlrs.errors import InvalidRequestError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PATHS = {"messages": "/v1/messages", "chat": "/v1/chat/completions"}
_REQUEST_NAMES = ("request", "request_body", "req", "body", "kwargs")
_RESPONSE_NAMES = ("response", "response_body", "res", "completion", "output")
_TIME_NAMES = ("timestamp", "startedDateTime", "time", "ts", "created_at", "startTime")
_SECONDS_MIN = 1_000_000_000
"""Smaller numbers are durations, as `time` in a HAR file is: no log is from before 2001."""
_SECONDS_MAX = 100_000_000_000
"""Numbers up to this are seconds, larger ones milliseconds."""
_OK = 200


class Exchange(NamedTuple):
    """A request, and what was answered."""

    path: str
    headers: list[tuple[bytes, bytes]]
    body: bytes
    status: int
    answer: bytes | None
    at_ms: int | None
    """Unix milliseconds."""


def read(path: Path) -> Iterator[Exchange | None]:
    """The exchanges of a log, in order; `None` for each record that holds no request.

    Raises:
        InvalidRequestError: The file is neither JSON nor JSON lines.
    """
    for record in _records(path):
        yield exchange(record) if isinstance(record, dict) else None


def _records(path: Path) -> Iterator[object]:
    with path.open(encoding="utf-8", errors="replace") as lines:
        first = lines.readline()
        try:
            yield json.loads(first)
        except json.JSONDecodeError:
            yield from _whole(path, first + lines.read())
            return
        for number, line in enumerate(lines, 2):
            if line.strip():
                try:
                    yield json.loads(line)
                except json.JSONDecodeError as error:
                    raise InvalidRequestError(f"{path}, line {number}: {error}") from None


def _whole(path: Path, text: str) -> Iterator[object]:
    try:
        whole = json.loads(text)
    except json.JSONDecodeError as error:
        raise InvalidRequestError(
            f"{path} is neither JSON nor JSON lines: {error}", suggestion="One JSON object a line is best"
        ) from None
    if isinstance(whole, list):
        yield from whole
        return
    log = whole.get("log") if isinstance(whole, dict) else None
    entries = log.get("entries") if isinstance(log, dict) else None
    yield from entries if isinstance(entries, list) else [whole]


def exchange(record: dict[str, object]) -> Exchange | None:
    """The exchange of one record; `None` where it holds no request."""
    request = _body_of(record, _REQUEST_NAMES) or (record if "messages" in record else None)
    if request is None or "messages" not in request:
        return None
    asked = {name: value for name, value in request.items() if name not in _RESPONSE_NAMES + _TIME_NAMES}
    answer = _body_of(record, _RESPONSE_NAMES)
    url = record.get("url") or record.get("path") or record.get("endpoint")
    inner = record.get("request")
    if not isinstance(url, str) and isinstance(inner, dict):
        url = inner.get("url")
    protocol = _protocol(url if isinstance(url, str) else "", asked, answer)
    return Exchange(
        PATHS[protocol],
        [(b"content-type", b"application/json")],
        json.dumps(asked).encode(),
        _status(record),
        json.dumps(answer).encode() if answer is not None else None,
        _time(record),
    )


def _body_of(record: dict[str, object], names: tuple[str, ...]) -> dict[str, object] | None:
    for name in names:
        found = _object(record.get(name))
        # Bodies stand in envelopes of one or two layers: {"response": {"body": …}}, HAR's content.text.
        for inner in ("body", "postData", "content", "text"):
            deeper = _object(found.get(inner)) if found is not None else None
            if deeper is not None and not {"messages", "choices", "stop_reason"} & set(found or {}):
                found = deeper
        if found is not None:
            return found
    return None


def _object(value: object) -> dict[str, object] | None:
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except json.JSONDecodeError:
            return None
    return value if isinstance(value, dict) else None


def _protocol(url: str, request: dict[str, object], answer: dict[str, object] | None) -> str:
    if "/chat/completions" in url:
        return "chat"
    is_messages = "/messages" in url or "system" in request or (answer or {}).get("type") == "message"
    return "messages" if is_messages else "chat"


def _status(record: dict[str, object]) -> int:
    for place in (record, record.get("response")):
        if isinstance(place, dict):
            for name in ("status", "status_code"):
                found = place.get(name)
                if isinstance(found, int):
                    return found
    return _OK


def _time(record: dict[str, object]) -> int | None:
    for name in _TIME_NAMES:
        found = record.get(name)
        if isinstance(found, int | float) and found >= _SECONDS_MIN:
            return int(found if found > _SECONDS_MAX else found * 1000)
        if isinstance(found, str):
            try:
                return int(datetime.fromisoformat(found.replace("Z", "+00:00")).timestamp() * 1000)
            except ValueError:
                continue
    return None
