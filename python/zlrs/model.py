"""What is loaded of a model, layer by layer."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence


class Layer(NamedTuple):
    """One layer.

    Attributes:
        heads: Query heads that are computed.
        kv_heads: Key and value heads that are stored.
        head_dim: Values of a head; 0 without attention.
        attention_bytes: Packed weights of the attention block.
        mlp_bytes: Packed weights of the MLP block.
    """

    heads: int
    kv_heads: int
    head_dim: int
    attention_bytes: int
    mlp_bytes: int

    @property
    def is_empty(self) -> bool:
        """Whether nothing of the layer was loaded."""
        return self.parameter_bytes == 0

    @property
    def parameter_bytes(self) -> int:
        """Packed weights of the layer."""
        return self.attention_bytes + self.mlp_bytes

    @property
    def kv_shape(self) -> tuple[int, ...]:
        """Shape of what is stored of one token: (keys and values, heads, values of a head), or (0,)."""
        return (2, self.kv_heads, self.head_dim) if self.kv_heads else (0,)


class LoadedModel(NamedTuple):
    """The layers of a loaded model, in order."""

    layers: tuple[Layer, ...]

    @classmethod
    def of(cls, parts: Sequence[tuple[int, int, int, int, int]]) -> LoadedModel:
        """From what the native engine says."""
        return cls(tuple(Layer(*part) for part in parts))
