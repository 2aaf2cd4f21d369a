"""Where a request goes. The upstream comes from configuration only; nothing a caller sends can change it."""

from __future__ import annotations

import re
from enum import Enum
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from yarl import URL

from zlrs.errors import NotFoundError
from zlrs_proxy.accept import refuse_dot_segments
from zlrs_proxy.names import RawHeaders, value_of
from zlrs_proxy.refuse import Refusal
from zlrs_proxy.settings import SettingsError

if TYPE_CHECKING:
    from zlrs.wire import Protocol
    from zlrs_proxy.accept import Target


class Endpoint(Enum):
    """What the graph understands; everything else is relayed."""

    MESSAGES = "messages"
    CHAT = "chat"
    OTHER = "other"


_KNOWN = re.compile(r"/v1/(?:messages|chat/completions|responses|models)(?:/[A-Za-z0-9._:/-]*)?")
_PLAIN = re.compile(r"[\x21-\x7e]+")
_UNDERSTOOD = {"/v1/messages": Endpoint.MESSAGES, "/v1/chat/completions": Endpoint.CHAT}


def endpoint_of(method: str, target: Target) -> Endpoint:
    """The exact path and method, else `OTHER`: spellings a server might fold together are not understood."""
    return _UNDERSTOOD.get(target.path, Endpoint.OTHER) if method == "POST" else Endpoint.OTHER


def refuse_unknown(target: Target) -> None:
    """Keep to the paths of both protocols, where that is configured: messages, models, chat and responses.

    Raises:
        Refusal: 404 for any other path, 400 for one that could be read as another.
    """
    refuse_dot_segments(target)
    if _KNOWN.fullmatch(target.path) is None:
        raise Refusal(
            NotFoundError(
                "This sidecar relays only the paths of messages, chat, responses and models.",
                suggestion='Set proxy.unknown_paths = "relay" to relay every path.',
            )
        )


def protocol_of(endpoint: Endpoint, target: Target, headers: RawHeaders) -> Protocol:
    """In whose shape an error of ours is said."""
    if endpoint is Endpoint.CHAT:
        return "chat"
    if endpoint is Endpoint.MESSAGES or value_of(headers, b"anthropic-version") is not None:
        return "messages"
    chat_paths = ("/v1/chat/", "/v1/responses", "/v1/embeddings", "/v1/completions")
    return "chat" if target.path.startswith(chat_paths) else "messages"


class Upstream:
    """The configured upstream and its addresses.

    Raises:
        SettingsError: The URL is not `http(s)://host[:port][/prefix]`.
    """

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        try:
            port_is_good = parts.port is None or parts.port > 0
        except ValueError:
            port_is_good = False
        is_good = port_is_good and parts.hostname and _PLAIN.fullmatch(parts.netloc + parts.path)
        if parts.scheme not in {"http", "https"} or not is_good:
            raise SettingsError(
                "proxy.upstream must look like https://host[:port][/prefix], for example https://api.anthropic.com"
            )
        if parts.username is not None or parts.query or parts.fragment:
            raise SettingsError(
                "proxy.upstream may have no user, query or fragment; name a key by upstream_key_env"
            )
        self.origin = f"{parts.scheme}://{parts.netloc}"
        self._prefix = parts.path.rstrip("/")
        self.name = self.origin + self._prefix
        """What scope and messages call it."""

    def check(self, target: Target) -> None:
        """Keep a target behind the prefix.

        Raises:
            Refusal: There is a prefix and the target would leave it.
        """
        if self._prefix:
            refuse_dot_segments(target)

    def path(self, target: Target) -> bytes:
        """The target behind the upstream's prefix, its bytes unchanged.

        Raises:
            Refusal: As `check`.
        """
        self.check(target)
        return (self._prefix + target.text).encode("ascii")

    def url(self, target: Target) -> URL:
        """The target behind the upstream's prefix, its bytes unchanged (but the `?` of an empty query).

        Raises:
            Refusal: As `check`.
        """
        self.check(target)
        return URL(self.name + target.text, encoded=True)
