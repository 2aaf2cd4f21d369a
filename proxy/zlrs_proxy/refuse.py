"""Answers of our own that are not from the graph: an error of the catalogue, raised where it is decided."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zlrs.errors import InvalidRequestError

if TYPE_CHECKING:
    from zlrs.errors import ZlrsError


class Refusal(Exception):  # noqa: N818 - a refusal is an answer, raised where it is decided
    """Ends a request with an error of ours. Nothing has been sent yet.

    Args:
        error: What to say; its type and status are the catalogue's.
        headers: Further headers of the answer.
        close: Whether the connection ends with this answer, because what follows on it cannot be trusted.
    """

    def __init__(
        self, error: ZlrsError, *, headers: tuple[tuple[str, str], ...] = (), close: bool = False
    ) -> None:
        super().__init__(error.message)
        self.error = error
        self.headers = headers
        self.close = close


def invalid(
    message: str, *, suggestion: str | None = None, status: int = 400, close: bool = False
) -> Refusal:
    """A request that is wrong whoever would answer it."""
    return Refusal(InvalidRequestError(message, suggestion=suggestion, status=status), close=close)
