"""Files of re-scoring heads, right and hostile, written byte by byte."""

from __future__ import annotations

import json
import struct
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

SCALARS = 12
WIDTH = 8
FAKE_SUM = "ab" * 32
"""The sum of the stand-in's model file."""

Part = tuple[str, list[int], bytes]


def parts(*, hidden: int = 2, width: int = WIDTH) -> dict[str, Part]:
    """All tensors of a head whose weights are 0."""
    shapes = {
        "state": [hidden, width], "scalars": [hidden, SCALARS], "bias": [hidden], "out": [hidden],
        "out_bias": [1],
    }  # fmt: skip
    return {name: ("F16", shape, bytes(2 * _count(shape))) for name, shape in shapes.items()}


def head_file(tensors: Mapping[str, Part] | None = None, **metadata: str) -> bytes:
    """A safetensors file."""
    known = {"format": "zlrs-ring-head-1", "model_sha256": FAKE_SUM, "threshold": "0.5", **metadata}
    header: dict[str, object] = {"__metadata__": known}
    data = b""
    for name, (kind, shape, content) in (parts() if tensors is None else tensors).items():
        header[name] = {"dtype": kind, "shape": shape, "data_offsets": [len(data), len(data) + len(content)]}
        data += content
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def _count(shape: list[int]) -> int:
    count = 1
    for size in shape:
        count *= size
    return count


def hostile() -> dict[str, tuple[bytes, str]]:
    """Files that are no head, and what the message says."""
    good = head_file()
    nan = {**parts(), "out": ("F16", [2], struct.pack("<2H", 0x7E00, 0))}
    infinite = {**parts(), "bias": ("F16", [2], struct.pack("<2H", 0, 0xFC00))}
    return {
        "empty": (b"", "safetensors"),
        "text": (b"not a head at all", "safetensors"),
        "truncated": (good[:-3], "safetensors"),
        "long header": (struct.pack("<Q", 1 << 62) + good[8:], "safetensors"),
        "header that ends early": (struct.pack("<Q", 20) + good[8:], "safetensors"),
        "nan": (head_file(nan), "finite"),
        "infinite": (head_file(infinite), "finite"),
        "wrong type": (head_file({**parts(), "out": ("F32", [2], bytes(8))}), "allowed: F16"),
        "wrong shape": (head_file({**parts(), "out": ("F16", [3], bytes(6))}), "wanted is [2]"),
        "missing": (head_file({k: v for k, v in parts().items() if k != "out"}), "missing"),
        "extra": (head_file({**parts(), "more": ("F16", [1], bytes(2))}), "not part of a head"),
        "too wide": (head_file(parts(hidden=300, width=600)), "limits"),
        "other format": (head_file(format="other"), "format"),
        "no sum": (head_file(model_sha256="zz"), "hexadecimal"),
        "threshold": (head_file(threshold="2"), "from 0 to 1"),
        "other model": (head_file(model_sha256="cd" * 32), "loaded is"),
    }
