"""A bounded copy of an answer that streams by."""

from __future__ import annotations

from zlrs_proxy.coding import decode
from zlrs_proxy.names import RawHeaders, value_of
from zlrs_proxy.route import Endpoint

# The last words of a complete stream. Clients hang up after them without waiting for the transport's own end.
_LAST_WORDS = {
    Endpoint.MESSAGES: (b'"type":"message_stop"', b'"type": "message_stop"'),
    Endpoint.CHAT: (b"data: [DONE]", b"data:[DONE]"),
}
_LAST_WORDS_WITHIN = 256


class Tap:
    """Keeps what it is fed until it is too much; then it keeps nothing.

    Args:
        limit: Most bytes to keep, and most that decoding may make of them.
        endpoint: Whose last words to look for.
    """

    def __init__(self, limit: int, endpoint: Endpoint) -> None:
        self._limit = limit
        self._endpoint = endpoint
        self._pieces: list[bytes] = []
        self.count = 0
        self.status = 0
        self.headers: RawHeaders = ()
        self.overflowed = False

    def begin(self, status: int, headers: RawHeaders) -> None:
        """The head of the answer."""
        self.status = status
        self.headers = headers

    def feed(self, piece: bytes) -> None:
        """The next piece of the body as it travelled."""
        self.count += len(piece)
        if self.overflowed:
            return
        if self.count > self._limit:
            self.overflowed = True
            self._pieces.clear()
        else:
            self._pieces.append(piece)

    @property
    def is_plain(self) -> bool:
        """Whether the answer has no content coding."""
        return value_of(self.headers, b"content-encoding") is None

    def has_ended(self) -> bool:
        """Whether the answer is whole although the transport has not said so: its length, or its last words.

        Compressed streams cannot be read here and are never whole before their end.
        """
        length = value_of(self.headers, b"content-length")
        if length is not None:
            return length.isdigit() and self.count >= int(length)
        tail = b""
        for piece in reversed(self._pieces):
            tail = piece + tail
            if len(tail) >= _LAST_WORDS_WITHIN:
                break
        tail = tail[-_LAST_WORDS_WITHIN:]
        words = _LAST_WORDS.get(self._endpoint, ())
        return tail.endswith((b"\n\n", b"\r\n\r\n", b"\r\r")) and any(word in tail for word in words)

    def decoded(self) -> bytes:
        """The body without its content coding. For worker threads: it may take a while.

        Raises:
            CodingError: It cannot be read, or there was too much of it.
        """
        coding = (value_of(self.headers, b"content-encoding") or b"").decode("latin-1")
        return decode(b"".join(self._pieces), coding, self._limit)
