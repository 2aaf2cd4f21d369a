"""A pytest plugin for a client library's own tests: the mock behind them answers what their types expect.

Loaded into the library's test run with `-p answers`. The mock needs no description of the API: the type that
a call casts its answer to says what the answer must look like. Outcomes go to a file, so that two runs can be
compared.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import importlib
import json
import os
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Literal, Union, get_args, get_origin

import pydantic

LIBRARY = os.environ["SDK_LIBRARY"]
FOLDER = Path(os.environ["SDK_ANSWERS"])
OUTCOMES = Path(os.environ["SDK_OUTCOMES"])
DEEPEST = 6
PLAIN = {str: "text", int: 1, float: 1.5, bool: True, object: {}, NoneType: None, None: None}
PLAIN |= {dt.datetime: "2025-01-02T03:04:05Z", dt.date: "2025-01-02", bytes: "bytes"}

outcomes: dict[str, str] = {}


def example(kind: object, depth: int = 0) -> object:
    """A value of a type, as JSON has it."""
    kind = getattr(kind, "__value__", kind)
    origin, arguments = get_origin(kind), get_args(kind)
    if kind in PLAIN:
        return PLAIN[kind]
    if origin is Annotated:
        return example(arguments[0], depth)
    if origin is Literal:
        return arguments[0]
    if origin in {Union, UnionType}:
        others = [one for one in arguments if one is not NoneType]
        if depth >= DEEPEST and len(others) < len(arguments):
            return None
        return example(others[0], depth)
    if origin is list:
        return [] if depth >= DEEPEST else [example(arguments[0], depth + 1)]
    if origin is dict:
        return {} if depth >= DEEPEST else {"key": example(arguments[1], depth + 1)}
    if isinstance(kind, type) and issubclass(kind, pydantic.BaseModel):
        return {
            field.alias or name: example(field.annotation, depth + 1)
            for name, field in kind.model_fields.items()
            if field.is_required() or depth < 4
        }
    return {}


def answer(cast_to: object, *, stream: bool) -> dict[str, object]:
    """Media type and body of an answer."""
    if stream:
        return {"type": "text/event-stream", "body": 'event: ping\ndata: {"type": "ping"}\n\n'}
    name = getattr(cast_to, "__name__", "")
    if "Binary" in name or "JSONL" in name or cast_to in {bytes, str}:
        return {"type": "application/octet-stream", "body": "content"}
    return {"type": "application/json", "body": json.dumps(example(cast_to))}


def headers_for(cast_to: object, headers: object, *, stream: bool) -> dict[str, object]:
    """The headers of a call, and which answer it wants and for which test."""
    text = json.dumps(answer(cast_to, stream=stream))
    name = hashlib.sha256(text.encode()).hexdigest()[:24]
    path = FOLDER / name
    if not path.exists():
        path.write_text(text)
    test = os.environ.get("PYTEST_CURRENT_TEST", "").rpartition(" ")[0]
    ours = {"x-answer": name, "x-test": hashlib.sha256(test.encode()).hexdigest()[:24]}
    return {**(headers if isinstance(headers, dict) else {}), **ours}


def pytest_configure() -> None:
    """Put the two headers on every call."""
    base = importlib.import_module(f"{LIBRARY}._base_client")
    for client in (base.SyncAPIClient, base.AsyncAPIClient):
        original = client.request

        def request(self, cast_to, options, *, stream=False, stream_cls=None, original=original):
            headers = headers_for(cast_to, options.headers, stream=stream)
            options = options.model_copy(update={"headers": headers})
            return original(self, cast_to, options, stream=stream, stream_cls=stream_cls)

        client.request = request


def pytest_runtest_logreport(report) -> None:
    """Remember how a test ended: the worst of its three parts."""
    if report.when == "call" or report.outcome != "passed":
        outcomes[report.nodeid] = (
            report.outcome if report.when == "call" else f"{report.when} {report.outcome}"
        )


def pytest_sessionfinish() -> None:
    """Write the outcomes."""
    OUTCOMES.write_text(json.dumps(outcomes))
