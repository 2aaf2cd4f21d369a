"""A way to answer: an engine in this process."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from zlrs.types import Message
from zlrs.verify.compare import Answer
from zlrs.work import Work

if TYPE_CHECKING:
    from zlrs.engine import Engine
    from zlrs.results import Compute


class EngineArm:
    """Asks a loaded engine, greedily."""

    def __init__(
        self, engine: Engine, max_tokens: int, *, aggressive: bool = False, is_counted: bool = True
    ) -> None:
        """Take an engine.

        Args:
            engine: The loaded model.
            max_tokens: Longest answer.
            aggressive: Ask it to leave out what its exit heads and thresholds of neurons allow.
            is_counted: Whether answers say all that was left out. Neurons are not counted.
        """
        self._engine = engine
        self._compute: Compute = "aggressive" if aggressive else "exact"
        self._is_counted = is_counted
        self._max_tokens = max_tokens
        self._work = Work.of(engine.info)
        self._empty = tuple(index for index, layer in enumerate(engine.model.layers) if layer.is_empty)

    def ask(self, prompt: str) -> Answer:
        """One answer to a user's message, or to a plain prompt where the model has no chat template."""
        turns = [Message("user", prompt)] if self._engine.info["has_chat_template"] else prompt
        started = time.perf_counter()
        answer = self._engine.generate(turns, max_tokens=self._max_tokens, compute=self._compute)
        total_ms = 1000 * (time.perf_counter() - started)
        saved: float | None = self._work.saved_share(answer.usage)
        if answer.compute == "aggressive" and not self._is_counted:
            saved = None
        return Answer(answer.text, total_ms, answer.usage.output_tokens, saved, self._empty)
