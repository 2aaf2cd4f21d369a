"""The way upstream: one session; nothing decoded, followed, remembered or taken from the environment."""

from __future__ import annotations

import asyncio
from http import HTTPStatus
from typing import TYPE_CHECKING

import aiohttp
from aiohttp.http_exceptions import HttpProcessingError

from zlrs.errors import TimeoutError as DeadlineError
from zlrs.errors import UpstreamUnreachableError
from zlrs_proxy.deadline import Deadline
from zlrs_proxy.direct import Direct
from zlrs_proxy.names import (
    HISTORICAL_CONTROLS,
    REQUEST_ONLY_HERE,
    RawHeaders,
    end_to_end,
    is_ours,
    to_text,
)
from zlrs_proxy.refuse import Refusal, invalid

if TYPE_CHECKING:
    from multidict import CIMultiDict

    from zlrs_proxy.body import Body
    from zlrs_proxy.direct import Answer
    from zlrs_proxy.exchange import Exchange
    from zlrs_proxy.pool import Member
    from zlrs_proxy.settings import Settings

_VIA = (b"Via", b"1.1 zlrs")
_ENDED = REQUEST_ONLY_HERE | HISTORICAL_CONTROLS
_NOT_MADE_UP = ("User-Agent", "Accept", "Accept-Encoding", "Content-Type")
_POOL_KEEPALIVE_SECONDS = 30.0


class UpstreamError(Exception):
    """The upstream gave no answer, or only a part of one. `kind` is a metric label, `refusal` what to say."""

    def __init__(self, kind: str, refusal: Refusal) -> None:
        super().__init__(kind)
        self.kind = kind
        self.refusal = refusal


class Forwarder:
    """Sends requests to configured upstreams. Made and closed on the loop."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        # Requests in flight are limited where they are accepted; a second limit here could only starve them.
        connector = aiohttp.TCPConnector(limit=0, keepalive_timeout=_POOL_KEEPALIVE_SECONDS)
        self._direct = Direct(connector, settings.connect_seconds)
        self._session = aiohttp.ClientSession(
            connector=connector,
            auto_decompress=False,
            cookie_jar=aiohttp.DummyCookieJar(),
            trust_env=False,
            skip_auto_headers=_NOT_MADE_UP,
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=settings.connect_seconds),
        )

    async def open(self, exchange: Exchange, body: Body, member: Member) -> Answer:
        """Send the request; returns when the head of the answer is here.

        Raises:
            UpstreamError: No connection, no answer in time, or nothing that is HTTP.
            Refusal: The client's own body failed on the way, or target or a header cannot be sent.
        """
        kept = self._kept(exchange.headers, member)
        data = body.to_send()
        method = exchange.request.method
        try:
            with Deadline(self._settings.first_byte_seconds):
                if method == "POST" and isinstance(data, bytes):
                    origin = self._direct.origin(member)
                    request = origin.post(member.upstream.path(exchange.accepted()), kept, data)
                    if request is not None:
                        return await self._direct.post(origin, request)
                return await self._session.request(
                    method,
                    member.upstream.url(exchange.accepted()),
                    headers=_fields(kept, body.length if data is not None else None),
                    data=data,
                    allow_redirects=False,
                    ssl=member.tls,
                )
        except (
            aiohttp.ClientError,
            HttpProcessingError,
            asyncio.TimeoutError,
            OSError,
            ValueError,
        ) as error:
            if body.failure is not None:
                raise body.failure from None
            raise self._explain(error, member.upstream.name) from error

    async def close(self) -> None:
        """Close every connection."""
        await self._session.close()

    def _kept(self, headers: RawHeaders, member: Member) -> list[tuple[bytes, bytes]]:
        """What travels on of a request's headers."""
        if member.is_zlrs:
            kept = [
                pair
                for pair in end_to_end(headers, REQUEST_ONLY_HERE)
                if pair[0].lower() != b"x-zlrs-cache-only"
            ]
        else:
            kept = [pair for pair in end_to_end(headers, _ENDED) if not is_ours(pair[0])]
        kept = member.with_key(kept)
        if self._settings.via:
            kept.append(_VIA)
        return kept

    def _explain(self, error: BaseException, name: str) -> UpstreamError:
        """One of five kinds, in words that name the upstream and nothing else of the request."""
        seconds = self._settings
        if isinstance(error, aiohttp.ConnectionTimeoutError):
            return self._error(
                name, "connect_timeout", 504, f"could not be reached within {seconds.connect_seconds:g} s"
            )
        if isinstance(error, asyncio.TimeoutError):
            return self._error(
                name, "first_byte", 504, f"sent nothing within {seconds.first_byte_seconds:g} s"
            )
        if isinstance(error, aiohttp.ClientSSLError):
            return self._error(name, "tls", 502, "has a certificate or TLS set-up that cannot be trusted")
        if isinstance(error, aiohttp.ClientConnectorError):
            return self._error(name, "unreachable", 502, "cannot be reached")
        if isinstance(error, aiohttp.ClientConnectionError | OSError):
            return self._error(name, "closed", 502, "closed the connection before it answered")
        return self._error(name, "malformed", 502, "sent something that is not a well-formed HTTP answer")

    @staticmethod
    def _error(name: str, kind: str, status: int, what: str) -> UpstreamError:
        timed_out = status == HTTPStatus.GATEWAY_TIMEOUT
        make = DeadlineError if timed_out else UpstreamUnreachableError
        suggestion = "Check that it runs and that --upstream names it."
        error = make(f"The upstream {name} {what}.", suggestion=suggestion, status=status)
        return UpstreamError(kind, Refusal(error))


def _fields(kept: list[tuple[bytes, bytes]], length: int | None) -> CIMultiDict[str]:
    """Headers as the library's session takes them.

    Raises:
        Refusal: One cannot be sent.
    """
    fields, refused = to_text(kept)
    if refused:
        raise invalid(f"The header {refused[0]} is not UTF-8.")
    if length is not None:
        fields["Content-Length"] = str(length)
    return fields
