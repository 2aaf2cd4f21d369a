"""`zlrs graph warm FILE`: ask a running sidecar or engine a file of questions, so that it knows them."""

from __future__ import annotations

import json
import os
import urllib.error
import urllib.request
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

from zlrs.errors import InvalidRequestError, UpstreamUnreachableError
from zlrs.traffic_log import PATHS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

AT_ONCE = 4
_TIMEOUT_S = 600
_PROTOCOL_VERSION = "2023-06-01"
_OK = 200


@dataclass(frozen=True)
class Plan:
    """How a line that is a question and no request is asked."""

    url: str
    model: str
    system: str | None = None
    max_tokens: int = 1024
    is_chat: bool = False
    key: str = ""

    def request(self, line: str) -> tuple[str, dict[str, object]]:
        """The path and the body of a line: a request as it is, or a question.

        Raises:
            InvalidRequestError: A line begins like a request and is none, or a question has no model.
        """
        if line.startswith("{"):
            try:
                body = json.loads(line)
            except json.JSONDecodeError as error:
                raise InvalidRequestError(f"a line is neither a request nor a question: {error}") from None
            return PATHS["chat" if self.is_chat else "messages"], body
        if not self.model:
            raise InvalidRequestError("questions need a model", suggestion="Name it with --model")
        turns: list[dict[str, object]] = [{"role": "user", "content": line}]
        body = {"model": self.model, "max_tokens": self.max_tokens, "temperature": 0, "messages": turns}
        if self.system is not None and self.is_chat:
            turns.insert(0, {"role": "system", "content": self.system})
        elif self.system is not None:
            body["system"] = self.system
        return PATHS["chat" if self.is_chat else "messages"], body


def lines(path: Path) -> Iterator[str]:
    """Questions or requests, one a line; empty lines and lines that begin with # are left out."""
    for line in path.read_text(encoding="utf-8").splitlines():
        text = line.strip()
        if text and not text.startswith("#"):
            yield text


def warm(plan: Plan, path: Path) -> Counter[str]:
    """Ask every line; how often each decision was made.

    Raises:
        UpstreamUnreachableError: Nothing answers there.
    """
    requests = [plan.request(line) for line in lines(path)]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        return Counter(pool.map(lambda request: _ask(plan, *request), requests))


def _ask(plan: Plan, path: str, body: dict[str, object]) -> str:
    headers = {"content-type": "application/json", "anthropic-version": _PROTOCOL_VERSION}
    if plan.key and plan.is_chat:
        headers["authorization"] = f"Bearer {plan.key}"
    elif plan.key:
        headers["x-api-key"] = plan.key
    request = urllib.request.Request(  # noqa: S310 - the operator's own address
        plan.url.rstrip("/") + path, json.dumps(body).encode(), headers, method="POST"
    )
    try:
        with urllib.request.urlopen(request, timeout=_TIMEOUT_S) as answer:  # noqa: S310
            answer.read()
            return _outcome(answer.status, answer.headers.get("X-ZLRS-Decision", ""))
    except urllib.error.HTTPError as error:
        return f"status {error.code}"
    except OSError as error:
        raise UpstreamUnreachableError(f"{plan.url} does not answer: {error}") from None


def _outcome(status: int, decision: str) -> str:
    parts = decision.split(";")
    kind = parts[0] or "no decision"
    reason = next((part for part in parts[1:] if part.startswith("reason=")), "")
    if status != _OK:
        return f"status {status}"
    return f"{kind} ({reason.removeprefix('reason=')})" if kind == "skipped" and reason else kind


def command(path: Path, plan: Plan) -> int:
    """Warm and print."""
    for outcome, count in warm(plan, path).most_common():
        print(f"{count:>6}  {outcome}")
    return 0


def key_of(variable: str | None) -> str:
    """The key in an environment variable.

    Raises:
        InvalidRequestError: It is not set.
    """
    if variable is None:
        return ""
    key = os.environ.get(variable)
    if not key:
        raise InvalidRequestError(f"--key-env: the variable {variable} is not set")
    return key
