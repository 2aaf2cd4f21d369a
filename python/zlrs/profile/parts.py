"""The parts that a mask can leave out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from zlrs._core import Mask

Kind = Literal["layer", "attention", "mlp", "group", "head"]

Shape = tuple[int, int, int, int, int]
"""Of a layer: query heads, key and value heads, values of a head, bytes of attention and of MLP weights."""

KV_VALUE_BYTES = 2
"""Keys and values are f16."""


class Part(NamedTuple):
    """One part of a model."""

    layer: int
    kind: Kind
    number: int = 0
    """The key and value head of a group, the query head of a head, else 0."""

    def __str__(self) -> str:
        numbered = self.kind in {"group", "head"}
        return f"layer {self.layer} {self.kind}" + (f" {self.number}" if numbered else "")


def candidates(shapes: Sequence[Shape], kinds: Iterable[Kind]) -> list[Part]:
    """Every part of these kinds that a model of that shape has."""
    wanted = set(kinds)
    parts = []
    for layer, (heads, kv_heads, *_) in enumerate(shapes):
        whole: tuple[Kind, ...] = ("layer", "attention", "mlp")
        parts += [Part(layer, kind) for kind in whole if kind in wanted]
        if "group" in wanted and kv_heads > 1:
            parts += [Part(layer, "group", index) for index in range(kv_heads)]
        if "head" in wanted:
            parts += [Part(layer, "head", index) for index in range(heads)]
    return parts


def weight_bytes(part: Part, shapes: Sequence[Shape]) -> float:
    """Bytes of weights that are not read for a token without the part."""
    heads, kv_heads, _, attention, mlp = shapes[part.layer]
    return {
        "layer": attention + mlp,
        "attention": attention,
        "mlp": mlp,
        "group": attention / max(kv_heads, 1),
        # A query head has its rows of the query and its columns of the output projection.
        "head": attention / max(heads + kv_heads, 1),
    }[part.kind]


def kv_bytes(shapes: Sequence[Shape]) -> int:
    """Bytes of keys and values of one token."""
    return sum(2 * KV_VALUE_BYTES * kv_heads * head_dim for _, kv_heads, head_dim, _, _ in shapes)


def without(
    mask: Mask, part: Part, shapes: Sequence[Shape], constants: Sequence[list[float] | None] = (None, None)
) -> Mask:
    """The mask that leaves out one part more.

    Args:
        mask: What is left out already.
        part: What is left out in addition.
        shapes: Of the full model.
        constants: What stands in for attention and for the MLP, where the part has them.
    """
    heads, kv_heads, *_ = shapes[part.layer]
    if part.kind == "head":
        return mask.without_heads(part.layer, [part.number])
    if part.kind == "group":
        size = heads // kv_heads
        return mask.without_heads(part.layer, list(range(part.number * size, (part.number + 1) * size)))
    if part.kind in {"layer", "attention"}:
        mask = mask.without(part.layer, "attention", constants[0])
    if part.kind in {"layer", "mlp"}:
        mask = mask.without(part.layer, "mlp", constants[1])
    return mask
