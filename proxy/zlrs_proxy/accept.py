"""The first room: what is no request to this sidecar, or too much of one, ends here, before any buffering."""

from __future__ import annotations

import ipaddress
import re
from typing import TYPE_CHECKING, NamedTuple

from zlrs.errors import APIError, RequestTooLargeError
from zlrs_proxy.names import value_of
from zlrs_proxy.refuse import Refusal, invalid

if TYPE_CHECKING:
    from aiohttp import web

    from zlrs_proxy.names import RawHeaders
    from zlrs_proxy.settings import Settings

_TARGET = re.compile(r"/[\x21\x22\x24-\x7e]*\Z|/\Z")
_DOT_SEGMENT = re.compile(r"(?:^|/)(?:\.|%2e){1,2}(?:/|\Z)", re.IGNORECASE)
_VIA_OURS = re.compile(rb"(?:^|,)\s*1\.[01]\s+zlrs\s*(?=,|\Z)")
_VIA_LIMIT = 5
_HOST_LENGTH = len(b"host")
_GOOD_HOSTS = 16
_VERSIONS = frozenset({(1, 0), (1, 1)})
_LOOPBACK_NAMES = frozenset({"localhost"})


class Target(NamedTuple):
    """The request target as it was sent: nothing decoded, nothing normalised."""

    path: str
    query: str

    @property
    def text(self) -> str:
        """Path and query joined again, byte for byte as they came."""
        return self.path + self.query


def target_of(request: web.BaseRequest) -> Target:
    """The path and the query (with its `?`) of an origin-form target.

    Raises:
        Refusal: `CONNECT`, absolute, authority or asterisk form, characters outside ASCII, a fragment.
    """
    raw = request.raw_path
    if request.version not in _VERSIONS:
        raise invalid("Only HTTP/1.1 and HTTP/1.0 are spoken here.", status=505, close=True)
    if request.method == "CONNECT":
        raise invalid("CONNECT is not supported: this is not a tunnel.", status=501, close=True)
    if not raw.startswith("/"):
        raise invalid(
            "The request target must be a path such as /v1/messages; absolute, authority and asterisk forms "
            "are refused.",
            suggestion="Use the sidecar as a base URL, not as a forward proxy (unset http_proxy).",
            close=True,
        )
    if _TARGET.match(raw) is None:
        raise invalid(
            "The request target has characters that must be percent-encoded, or a fragment.", close=True
        )
    path, mark, query = raw.partition("?")
    return Target(path, mark + query)


def refuse_dot_segments(target: Target) -> None:
    """Keep a target inside the upstream's path prefix.

    Raises:
        Refusal: A segment is `.` or `..`, also percent-encoded.
    """
    if _DOT_SEGMENT.search(target.path) is not None:
        raise invalid("The request target has a `.` or `..` segment.")


class HostRule:
    """Which `Host` values are served: guards a loopback service against names made to resolve to it."""

    def __init__(self, settings: Settings) -> None:
        self._any = "*" in settings.allowed_hosts
        self._names = {name.lower() for name in settings.allowed_hosts} | _LOOPBACK_NAMES
        self._bound = settings.host.lower().strip("[]")
        self._beyond_loopback = not is_loopback(settings.host)
        self.checked: tuple[bytes, ...] = ()
        """Values that were checked and are served."""

    def check(self, headers: RawHeaders) -> None:
        """One `Host`, and one that is meant for us.

        Raises:
            Refusal: None or several (400), or a name that is not on the list (421).
        """
        hosts = [one for name, one in headers if len(name) == _HOST_LENGTH and name.lower() == b"host"]
        if len(hosts) != 1:
            raise invalid(f"A request needs exactly one Host header, this one has {len(hosts)}.", close=True)
        value = hosts[0]
        if value in self.checked:
            return
        host = _host_name(value.decode("latin-1"))
        if not self._any and (host is None or not self._known(host)):
            raise invalid(
                "This sidecar does not serve the name in the Host header.",
                status=421,
                suggestion="Add it to proxy.allowed_hosts or start with --allowed-host NAME.",
                close=True,
            )
        if len(self.checked) < _GOOD_HOSTS:
            self.checked = (*self.checked, value)

    def _known(self, host: str) -> bool:
        if host in self._names or host == self._bound:
            return True
        try:
            address = ipaddress.ip_address(host)
        except ValueError:
            return False
        # A literal address cannot be made to point elsewhere by a name server.
        return address.is_loopback or self._beyond_loopback


def _host_name(value: str) -> str | None:
    """The host of `host[:port]` in lower case, brackets removed; None when malformed."""
    match = re.fullmatch(r"(?:\[([0-9A-Fa-f:.]+)\]|([A-Za-z0-9._-]+))(?::\d{1,5})?", value.strip())
    if match is None:
        return None
    return (match[1] or match[2]).lower().rstrip(".")


def is_loopback(host: str) -> bool:
    """Whether an address to listen on can only be reached from this machine."""
    name = host.strip("[]").lower()
    if name in _LOOPBACK_NAMES:
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


def refuse_loops(headers: RawHeaders) -> None:
    """End a request that has passed sidecars again and again.

    Raises:
        Refusal: `Via` names us five times.
    """
    if value_of(headers, b"via") is None:
        return
    hops = sum(len(_VIA_OURS.findall(value)) for name, value in headers if name.lower() == b"via")
    if hops >= _VIA_LIMIT:
        raise Refusal(
            APIError(
                f"This request has passed {hops} zlrs sidecars: the upstream seems to be one of them.",
                suggestion="Check --upstream.",
                status=508,
            ),
            headers=(("x-should-retry", "false"),),
        )


def declared_length(request: web.BaseRequest, limit: int) -> int | None:
    """The body's length where it is declared; None for chunked bodies.

    Raises:
        Refusal: 413 when it is over the limit, before a byte of the body is read.
    """
    length = request.content_length
    if length is not None and length > limit:
        raise too_large(limit, length)
    return length


def too_large(limit: int, given: int | None) -> Refusal:
    """413 with both numbers."""
    size = f"{given} bytes" if given is not None else "longer"
    return Refusal(
        RequestTooLargeError(
            f"The request body may have {limit} bytes, this one is {size}.",
            suggestion="Send less, or raise proxy.body_limit_bytes where the upstream takes more.",
        ),
        close=True,
    )


async def answer_expect(request: web.BaseRequest, headers: RawHeaders) -> None:
    """Tell a client that waits for leave to send its body that it may.

    Raises:
        Refusal: 417 for an expectation other than `100-continue`.
    """
    expect = value_of(headers, b"expect")
    if expect is None:
        return
    if expect.strip().lower() != b"100-continue":
        raise invalid("Only the expectation 100-continue can be met.", status=417, close=True)
    if request.version >= (1, 1):
        await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        request.writer.output_size = 0
