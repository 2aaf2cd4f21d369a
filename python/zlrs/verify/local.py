"""A way to answer: an engine in this process."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from zlrs.types import Message
from zlrs.verify.compare import Answer

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zlrs.engine import Engine


def saved_share(info: Mapping[str, str | int | bool]) -> float:
    """Share of the multiply-adds of a decoded token that a load does not do."""
    return 1 - int(info["token_multiply_adds"]) / int(info["token_multiply_adds_full"])


class EngineArm:
    """Asks a loaded engine, greedily."""

    def __init__(self, engine: Engine, max_tokens: int) -> None:
        self._engine = engine
        self._max_tokens = max_tokens
        self._saved = saved_share(engine.info)
        self._empty = tuple(index for index, layer in enumerate(engine.model.layers) if layer.is_empty)

    def ask(self, prompt: str) -> Answer:
        """One answer to a user's message, or to a plain prompt where the model has no chat template."""
        turns = [Message("user", prompt)] if self._engine.info["has_chat_template"] else prompt
        started = time.perf_counter()
        answer = self._engine.generate(turns, max_tokens=self._max_tokens)
        total_ms = 1000 * (time.perf_counter() - started)
        return Answer(answer.text, total_ms, answer.usage.output_tokens, self._saved, self._empty)
