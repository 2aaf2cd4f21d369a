"""How many tokens a text has: counted with a model's own tokenizer, or estimated and said to be so.

>>> from zlrs.tokens import estimate
>>> estimate("How many tokens has this sentence?")
8
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from zlrs import _core
from zlrs.errors import ModelNotFoundError, from_core

if TYPE_CHECKING:
    import os

_PIECES = re.compile(r"[A-Za-z]+|\d+|[^\x00-\x7f]|[^\sA-Za-z0-9]+")
_LETTERS_A_TOKEN = 6
_DIGITS_A_TOKEN = 3


class Tokenizer:
    """The tokenizer of a GGUF model file. Its weights are not read. Safe to use from several threads.

    Args:
        path: The model file.

    Raises:
        ModelInvalidError: It is no model file, or has a tokenizer that is not known here.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        try:
            self._core = _core.Tokenizer(path)
        except _core.CoreError as error:
            raise from_core(error) from None

    @classmethod
    def of(cls, model: str) -> Tokenizer:
        """The tokenizer of a model by its name in the registry, or by the path of its file (`….gguf`).

        Raises:
            ModelNotFoundError: No model has this name.
            ModelInvalidError: Its file is not here or cannot be read.
        """
        from zlrs.models import UnknownModelError, find_model, models_folder

        if model.endswith(".gguf"):
            return cls(model)
        try:
            return cls(models_folder() / find_model(model).file)
        except UnknownModelError as error:
            raise ModelNotFoundError(error.message, suggestion=error.suggestion) from None

    def count(self, text: str) -> int:
        """Tokens of a text; linear in its length."""
        return self._core.count(text)


def estimate(text: str) -> int:
    """Tokens that a text has with a usual byte-pair tokenizer, within some ten percent for plain prose.

    Counts words by their length, digits by threes, signs by runs and characters beyond ASCII one by one.
    Linear in the text.
    """
    count = 0
    for match in _PIECES.finditer(text):
        first, length = match[0][0], len(match[0])
        if first.isascii() and first.isalpha():
            count += -(-length // _LETTERS_A_TOKEN)
        elif first.isascii() and first.isdigit():
            count += -(-length // _DIGITS_A_TOKEN)
        else:
            count += 1
    return count
