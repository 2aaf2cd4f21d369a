"""A way to answer: a Messages or Chat endpoint at a URL, with headers of its own."""

from __future__ import annotations

import http.client
import json
import time
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from zlrs.errors import InvalidRequestError, UpstreamUnreachableError
from zlrs.verify.compare import Answer

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zlrs.wire import Protocol

ANSWER_BYTES = 8 << 20
"""Longest answer that is read."""
EXCERPT = 200
PATHS: dict[Protocol, str] = {"messages": "/v1/messages", "chat": "/v1/chat/completions"}
EMPTY_LAYERS = "zero-layer="


class UrlArm:
    """Asks an endpoint over one kept connection. Redirects are errors: nothing but the URL given is asked."""

    def __init__(
        self,
        url: str,
        *,
        model: str,
        protocol: Protocol,
        max_tokens: int,
        headers: Mapping[str, str],
        timeout_s: float = 120.0,
    ) -> None:
        """Say whom to ask.

        Args:
            url: Up to and without `/v1/…`; a final `/v1` is left out.
            model: The model's name there.
            protocol: Messages or Chat.
            max_tokens: Longest answer.
            headers: Of every request: credentials, and what makes this way of answering.
            timeout_s: For connecting and for every read.

        Raises:
            InvalidRequestError: The URL is none of http or https, or carries credentials.
        """
        self._connection, base = _connect(url, timeout_s)
        self._path = base + PATHS[protocol]
        self._protocol = protocol
        self._model = model
        self._max_tokens = max_tokens
        self._headers = {"content-type": "application/json", **headers}
        if protocol == "messages":
            self._headers.setdefault("anthropic-version", "2023-06-01")

    def ask(self, prompt: str) -> Answer:
        """One answer to a user's message.

        Raises:
            UpstreamUnreachableError: It cannot be reached, answers with an error, or with something else.
        """
        body = json.dumps(
            {
                "model": self._model,
                "max_tokens": self._max_tokens,
                "temperature": 0,
                "messages": [{"role": "user", "content": prompt}],
            }
        )
        started = time.perf_counter()
        headers, data = _exchange(self._connection, "POST", self._path, self._headers, body)
        return self._read(data, headers, 1000 * (time.perf_counter() - started))

    def _read(self, data: bytes, headers: http.client.HTTPMessage, total_ms: float) -> Answer:
        try:
            body = json.loads(data)
            if self._protocol == "messages":
                text = "".join(block.get("text", "") for block in body["content"])
                tokens = int(body["usage"]["output_tokens"])
            else:
                text = body["choices"][0]["message"]["content"] or ""
                tokens = int(body["usage"]["completion_tokens"])
        except (ValueError, KeyError, IndexError, TypeError, AttributeError) as error:
            raise _strange(self._connection, data) from error
        return Answer(text, total_ms, tokens, _saved(body), _empty_layers(headers))

    def close(self) -> None:
        """End the connection."""
        self._connection.close()


def first_model(url: str, headers: Mapping[str, str], timeout_s: float = 30.0) -> str:
    """The first name that an endpoint lists under `/v1/models`.

    Raises:
        InvalidRequestError: As `UrlArm`.
        UpstreamUnreachableError: It cannot be reached or lists nothing.
    """
    connection, base = _connect(url, timeout_s)
    try:
        _, data = _exchange(connection, "GET", f"{base}/v1/models", headers)
    finally:
        connection.close()
    try:
        return str(json.loads(data)["data"][0]["id"])
    except (ValueError, KeyError, IndexError, TypeError) as error:
        raise _strange(connection, data) from error


def _connect(url: str, timeout_s: float) -> tuple[http.client.HTTPConnection, str]:
    """A connection that is opened when it is used, and what paths begin with."""
    parts = urlsplit(url)
    if parts.scheme not in {"http", "https"} or not parts.hostname or parts.username is not None:
        raise InvalidRequestError(
            f"the URL is {url!r}; allowed: http:// or https:// with a host, without a user in it"
        )
    try:
        port = parts.port
    except ValueError as error:
        raise InvalidRequestError(f"the port of {url!r} is none: {error}") from error
    kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    return kind(parts.hostname, port, timeout=timeout_s), parts.path.rstrip("/").removesuffix("/v1")


def _exchange(
    connection: http.client.HTTPConnection,
    method: str,
    path: str,
    headers: Mapping[str, str],
    body: str | None = None,
) -> tuple[http.client.HTTPMessage, bytes]:
    """One request and its answer."""
    try:
        connection.request(method, path, body, dict(headers))
        response = connection.getresponse()
        data = response.read(ANSWER_BYTES + 1)
    except (OSError, http.client.HTTPException) as error:
        connection.close()
        raise UpstreamUnreachableError(f"{connection.host} cannot be asked: {error}") from error
    if response.status != http.HTTPStatus.OK:
        connection.close()
        said = data[:EXCERPT].decode("utf-8", "replace")
        raise UpstreamUnreachableError(f"{connection.host} answered {response.status}: {said}")
    return response.headers, data


def _strange(connection: http.client.HTTPConnection, data: bytes) -> UpstreamUnreachableError:
    said = data[:EXCERPT].decode("utf-8", "replace")
    return UpstreamUnreachableError(f"{connection.host} answered with something unexpected: {said}")


def _saved(body: Mapping[str, object]) -> float | None:
    """What a receipt says of multiply-adds that were not done; nothing where there is no receipt."""
    receipt = body.get("zlrs")
    if not isinstance(receipt, dict):
        return None
    zero_layer, profile = receipt.get("zero_layer"), receipt.get("compute_profile")
    if isinstance(zero_layer, dict) and isinstance(share := zero_layer.get("saved_share"), (int, float)):
        return float(share)
    if not isinstance(profile, dict) or str(profile.get("mode")).startswith("aggressive"):
        return None  # neurons may have been left out, and nobody counts them
    return 0.0 if profile.get("sparse_skips") == 0 == profile.get("row_layer_skips") else None


def _empty_layers(headers: http.client.HTTPMessage) -> tuple[int, ...] | None:
    info = headers.get("X-ZLRS-Model-Info") or headers.get("X-Anthropic-Model-Info")
    if info is None:
        return None
    for part in info.split(";"):
        if part.startswith(EMPTY_LAYERS):
            numbers = part.removeprefix(EMPTY_LAYERS).split(",")
            return tuple(int(number) for number in numbers if number.isdigit())
    return None
