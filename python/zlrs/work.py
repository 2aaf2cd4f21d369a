"""How many multiply-adds an answer takes, and how many of them were not done."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zlrs.results import Usage


class Work(NamedTuple):
    """Multiplications with a weight, of one loaded model.

    What attention does with keys and values comes on top, grows with the context, and is not counted here.

    Attributes:
        full: For one decoded token of the full model, its head included.
        loaded: For one decoded token of what is loaded: less where a mask leaves parts out.
        head: The head's among both.
        layers: Layers of the model, over which the rest is spread.
    """

    full: int = 0
    loaded: int = 0
    head: int = 0
    layers: int = 1

    @classmethod
    def of(cls, info: Mapping[str, str | int | bool]) -> Work:
        """From what an engine says; nothing where it says nothing."""
        names = ("token_multiply_adds_full", "token_multiply_adds", "head_multiply_adds")
        full, loaded, head = (int(info.get(name, 0)) for name in names)
        return cls(full, loaded, head, max(int(info["layers"]), 1))

    def saved_share(self, usage: Usage | None = None) -> float:
        """Share of the multiply-adds that were not done, 0 … 1.

        Args:
            usage: Of an answer: tokens that were computed, and layers that single tokens left out. Without
                one, of a decoded token that runs through all layers that are loaded.
        """
        if not self.full:
            return 0.0
        if usage is None:
            return 1 - self.loaded / self.full
        computed = usage.input_tokens - usage.cached_tokens + usage.output_tokens
        heads = usage.output_tokens * self.head
        full = computed * (self.full - self.head) + heads
        layer = (self.loaded - self.head) / self.layers
        done = computed * (self.loaded - self.head) + heads - usage.row_layer_skips * layer
        return 1 - done / full if full else 0.0


UNKNOWN = Work()
"""Of a model that says nothing of it: nothing is saved."""
