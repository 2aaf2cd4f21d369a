"""A count of our own of a request's tokens: with a tokenizer, or an estimate that is called one."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from zlrs.errors import ZlrsError
from zlrs.tokens import Tokenizer, estimate
from zlrs_proxy.settings import SettingsError
from zlrs_proxy.view import text_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from zlrs_proxy.view import View

_BASE64 = re.compile(r'"[A-Za-z0-9+/=_-]{2000,}"')
_TURN_TOKENS = 4
_IMAGE_TOKENS = 1600


class Count(NamedTuple):
    """Tokens of a prompt; `method` is `count` with a tokenizer, else `estimate`."""

    tokens: int
    method: str

    @property
    def header(self) -> str:
        """The value of `X-ZLRS-Tokens`."""
        return f"local={self.tokens};method={self.method}"


class Recounter:
    """Counts prompts. For worker threads: it takes milliseconds for long ones.

    Args:
        model: Name or path of a model file, whose tokenizer counts; None: an estimate.

    Raises:
        SettingsError: The model's file is not here or has no known tokenizer.
    """

    def __init__(self, model: str | None) -> None:
        self._count: Callable[[str], int] = estimate
        self._method = "estimate"
        if model is not None:
            try:
                self._count = Tokenizer.of(model).count
            except ZlrsError as error:
                raise SettingsError(f"recount_model: {error.message}") from error
            self._method = "count"

    def count(self, view: View) -> Count:
        """Tokens of system, messages and tools, with four for each turn's frame.

        Pictures and documents are guessed, a fixed sum each, so that the whole is an estimate.
        """
        total, method = 0, self._method
        for raw in view.texts:
            if raw == b"null":
                continue
            text = text_of(raw)
            if not text:
                # Not plain text: tool calls, results, pictures. Their JSON, without long encoded data.
                plain, pictures = _BASE64.subn('""', bytes(raw).decode("utf-8", "replace"))
                text = plain
                if pictures:
                    total += pictures * _IMAGE_TOKENS
                    method = "estimate"
            total += self._count(text) + _TURN_TOKENS
        return Count(total, method)
