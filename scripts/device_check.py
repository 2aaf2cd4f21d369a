"""What a GPU does with zlrs, in minutes: kernels against their references, exactness, speed. JSON on stdout.

Attention is measured beside the same in three passes over memory, and beside PyTorch's where it is
installed; the governor's decisions are listed.

Needs the installed package and nothing else: no network, no compiler, no model. Models of the wanted shapes
are made on the spot with random Q4_K weights, so they write nonsense at the speed of real ones. Without a
GPU it says so and succeeds. What fails stands in the report with its reason, the rest goes on, and the exit
status is 1; the file is written anew after every part.

    python scripts/device_check.py [--shapes 0.5B,1.5B,8B] [--depths 0,8192,32000] [--seconds S] [--out FILE]
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import struct
import sys
import tempfile
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from zlrs import _core

if TYPE_CHECKING:
    from collections.abc import Callable

CHUNK = 512
"""Tokens of a measured prompt."""
STEPS = 64
"""Tokens of a measured answer."""
TOGETHER = 16
"""Answers of the measured batch."""
ROWS_OF_AN_EXIT_HEAD = 256
"""A whole step's."""
EXACTNESS_WINDOW, EXACTNESS_KV_BYTES = 2048, 256 << 20
"""Room for all the answers that run together."""
KERNELS_TESTED = (
    "products of every weight type, norm, gate, attention in all forms: the bits of the references"
)
Q4_K, F32 = 12, 0
BLOCK_WEIGHTS, BLOCK_BYTES = 256, 144


@dataclass(frozen=True)
class Shape:
    """Sizes of a decoder of the qwen2 kind."""

    layers: int
    width: int
    mlp: int
    heads: int
    kv_heads: int
    head: int
    vocabulary: int


SHAPES = {
    "small": Shape(2, 512, 1024, 8, 2, 64, 512),
    "0.5B": Shape(24, 1024, 4864, 16, 2, 64, 151_936),
    "1.5B": Shape(28, 1536, 8960, 12, 2, 128, 151_936),
    "8B": Shape(32, 4096, 14_336, 32, 8, 128, 128_256),
}


def say(text: str) -> None:
    """Progress goes to stderr."""
    print(f"device-check: {text}", file=sys.stderr, flush=True)


def byte_names() -> list[str]:
    """The printable stand-in of each byte in byte-level vocabularies."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    names = {byte: chr(byte) for byte in printable}
    for byte in range(256):
        if byte not in names:
            names[byte] = chr(256 + byte - sum(known < byte for known in printable))
    return [names[byte] for byte in range(256)]


def text(value: str) -> bytes:
    """A GGUF string."""
    data = value.encode()
    return struct.pack("<Q", len(data)) + data


def entry(key: str, value: str | float | list[str]) -> bytes:
    """A GGUF key with its value."""
    if isinstance(value, str):
        return text(key) + struct.pack("<I", 8) + text(value)
    if isinstance(value, int):
        return text(key) + struct.pack("<II", 4, value)
    if isinstance(value, float):
        return text(key) + struct.pack("<If", 6, value)
    return text(key) + struct.pack("<IIQ", 9, 8, len(value)) + b"".join(map(text, value))


def tensors(shape: Shape) -> list[tuple[str, int, int]]:
    """Name, rows (0 for a vector) and columns of every tensor."""
    query, kv = shape.heads * shape.head, shape.kv_heads * shape.head
    found = [("token_embd.weight", shape.vocabulary, shape.width)]
    for layer in range(shape.layers):
        found += [
            (f"blk.{layer}.{name}.weight", rows, cols)
            for name, rows, cols in (
                ("attn_norm", 0, shape.width), ("attn_q", query, shape.width), ("attn_k", kv, shape.width),
                ("attn_v", kv, shape.width), ("attn_output", shape.width, query),
                ("ffn_norm", 0, shape.width),
                ("ffn_gate", shape.mlp, shape.width), ("ffn_up", shape.mlp, shape.width),
                ("ffn_down", shape.width, shape.mlp),
            )
        ]  # fmt: skip
    return [*found, ("output_norm.weight", 0, shape.width)]


def tensor_bytes(rows: int, cols: int) -> int:
    """Bytes of a tensor."""
    return rows * cols // BLOCK_WEIGHTS * BLOCK_BYTES if rows else 4 * cols


def write_model(shape: Shape, context_tokens: int, path: Path) -> int:
    """Write a model of that shape and return the bytes that a token reads."""
    size = {
        "block_count": shape.layers, "context_length": context_tokens, "embedding_length": shape.width,
        "feed_forward_length": shape.mlp, "attention.head_count": shape.heads,
        "attention.head_count_kv": shape.kv_heads, "attention.key_length": shape.head,
        "attention.value_length": shape.head, "rope.dimension_count": shape.head,
    }  # fmt: skip
    entries = [entry("general.architecture", "llama"), entry("general.name", "device check")]
    entries += [entry(f"llama.{key}", value) for key, value in size.items()]
    entries += [entry("llama.attention.layer_norm_rms_epsilon", 1e-5), entry("llama.rope.freq_base", 1e6)]
    tokens = [*byte_names(), "<|end|>"]
    entries += [
        entry("tokenizer.ggml.model", "gpt2"), entry("tokenizer.ggml.pre", "gpt-2"),
        entry("tokenizer.ggml.tokens", tokens), entry("tokenizer.ggml.merges", []),
        entry("tokenizer.ggml.eos_token_id", 256),
    ]  # fmt: skip
    kinds = [1] * 256 + [3]
    entries.append(
        text("tokenizer.ggml.token_type")
        + struct.pack("<IIQ", 9, 5, len(kinds))
        + struct.pack("<257i", *kinds)
    )
    wanted = tensors(shape)
    head = b"GGUF" + struct.pack("<IQQ", 3, len(wanted), len(entries)) + b"".join(entries)
    offset = 0
    for name, rows, cols in wanted:
        sizes = (cols, rows) if rows else (cols,)
        head += text(name) + struct.pack(
            f"<I{len(sizes)}QIQ", len(sizes), *sizes, Q4_K if rows else F32, offset
        )
        offset += -(-tensor_bytes(rows, cols) // 32) * 32
    generator = random.Random(1)  # noqa: S311 - weights, not secrets
    # Weights around zero, such that hidden states keep their size over the layers.
    factor = 1 / (200 * shape.width**0.5)
    blocks = b"".join(
        struct.pack("<ee", factor, 7.5 * factor) + generator.randbytes(BLOCK_BYTES - 4) for _ in range(8192)
    )
    with path.open("wb") as file:
        file.write(head + bytes(-len(head) % 32))
        for _, rows, cols in wanted:
            left = tensor_bytes(rows, cols)
            padding = -left % 32
            if not rows:
                file.write(struct.pack("<f", 1.0) * cols)
                left = 0
            while left > 0:
                left -= file.write(memoryview(blocks)[:left])
            file.write(bytes(padding))
    return sum(tensor_bytes(rows, cols) for _, rows, cols in wanted)


def finish(generation: _core.Generation) -> tuple[list[int], _core.Finished]:
    """The tokens of an answer and how it ended."""
    ids: list[int] = []
    while True:
        for event in generation.wait(1000):
            if isinstance(event, _core.Finished):
                return ids, event
            ids += event.ids


def ask(
    engine: _core.Engine, ids: list[int], max_tokens: int, compute: str = "exact", temperature: float = 0.0
) -> _core.Generation:
    """Queue an answer that does not end early. Drawing takes the host longer than the likeliest does."""
    return engine.submit(
        ids, max_tokens=max_tokens, temperature=temperature, seed=7, logit_bias={256: -100.0}, compute=compute
    )


def prompt(length: int, seed: int) -> list[int]:
    """Random tokens, the first of them telling prompts apart."""
    return random.Random(seed).choices(range(256), k=length)  # noqa: S311 - tokens, not secrets


def exactness(folder: Path) -> dict[str, bool | float]:
    """A small model gives the processor's tokens, drawn and likeliest, alone and beside others."""
    path = folder / "small.gguf"
    write_model(SHAPES["small"], EXACTNESS_WINDOW, path)
    prompts = [prompt(100 + 37 * seed, seed) for seed in range(TOGETHER)]
    temperatures = [float(seed % 2) for seed in range(TOGETHER)]

    def load(device: str) -> _core.Engine:
        return _core.Engine.load(path, device=device, drafting="off", kv_bytes=EXACTNESS_KV_BYTES)

    def one_by_one(engine: _core.Engine, count: int) -> list[list[int]]:
        asked = zip(prompts[:count], temperatures, strict=False)
        return [finish(ask(engine, ids, STEPS, "exact", warmth))[0] for ids, warmth in asked]

    expected = one_by_one(load("cpu"), TOGETHER)
    alone = one_by_one(load("cuda"), 4)
    # A load of its own: nothing of the answers above is reused.
    gpu = load("cuda")
    asked = zip(prompts, temperatures, strict=True)
    running = [ask(gpu, ids, STEPS, "exact", warmth) for ids, warmth in asked]
    together = [finish(generation)[0] for generation in running]
    first = [equal(one, other) for one, other in zip(together, expected, strict=True)]
    return {
        "tokens_of_the_processor": alone == expected[:4],
        "alone_equals_together": together == expected,
        "share_of_tokens_before_the_first_other_one": round(sum(first) / sum(map(len, expected)), 4),
    }


def equal(one: list[int], other: list[int]) -> int:
    """Tokens before the first that differs."""
    pairs = list(zip(one, other, strict=False))
    return next((index for index, (a, b) in enumerate(pairs) if a != b), len(pairs))


def attention(shape: Shape, depth: int) -> dict[str, object]:
    """One layer's attention of one row: fused, in three passes, PyTorch's where it is; an exit head."""
    found = _core.gpu_measure(shape.heads, shape.kv_heads, shape.head, depth, ROWS_OF_AN_EXIT_HEAD)
    result: dict[str, object] = {
        "depth": depth,
        "fused_us": round(found["fused_s"] * 1e6, 1),
        "unfused_us": round(found["unfused_s"] * 1e6, 1),
        "unfused_over_fused": round(found["unfused_s"] / found["fused_s"], 2),
        "fused_gigabytes_per_second": round(found["bytes"] / found["fused_s"] / 1e9, 1),
        "exit_head_us": round(found["exit_head_s"] * 1e6, 1),
        "exit_head_rows": ROWS_OF_AN_EXIT_HEAD,
    }
    peer_s = scaled_dot_product_seconds(shape, depth)
    if peer_s is None:
        return {**result, "torch": "not installed, or without a GPU"}
    return {
        **result,
        "torch_us": round(peer_s * 1e6, 1),
        "torch_over_fused": round(peer_s / found["fused_s"], 2),
    }


def scaled_dot_product_seconds(shape: Shape, depth: int) -> float | None:
    """The median time of PyTorch's attention of the same row, f16; None where it cannot run."""
    try:
        import torch
    except ImportError:
        return None
    if not torch.cuda.is_available():
        return None

    def random_halves(heads: int, rows: int) -> torch.Tensor:
        return torch.randn(1, heads, rows, shape.head, device="cuda", dtype=torch.float16)

    query = random_halves(shape.heads, 1)
    key, value = (random_halves(shape.kv_heads, depth) for _ in range(2))
    times = []
    for _ in range(22):
        torch.cuda.synchronize()
        began = time.perf_counter()
        # Heads share keys and values, as ours do.
        torch.nn.functional.scaled_dot_product_attention(query, key, value, enable_gqa=True)
        torch.cuda.synchronize()
        times.append(time.perf_counter() - began)
    return statistics.median(times[1:])


def kernels() -> str:
    """Kernels against their references; the first that differs is an error."""
    _core.gpu_self_test()
    return KERNELS_TESTED


def governed(folder: Path, peaks: list[float]) -> dict[str, dict[str, object]]:
    """What the governor decides under both policies: alone, then many answers at once, then alone again.

    Args:
        folder: For the model.
        peaks: Of the memory in gigabytes a second, as measured; added to.
    """
    shape = SHAPES["0.5B"]
    path = folder / "governed.gguf"
    write_model(shape, 4096, path)
    traces: dict[str, dict[str, object]] = {}
    for policy in ("idle", "saturated"):
        engine = _core.Engine.load(
            path, device="cuda", drafting="off", kv_precision="governed", governor_policy=policy
        )
        for together in (1, TOGETHER, 1):
            prompts = [prompt(64, 30 + index) for index in range(together)]
            running = [ask(engine, ids, 4 * STEPS, "aggressive") for ids in prompts]
            for generation in running:
                finish(generation)
        peak, decisions = engine.governor() or (0.0, [])
        peaks.append(peak / 1e9)
        traces[policy] = {"peak_gigabytes_per_second": round(peak / 1e9, 1), "decisions": decisions}
        engine.close()
    path.unlink()
    return traces


def speed(name: str, depths: list[int], folder: Path, peak: float) -> dict[str, object]:
    """Tokens a second of prompts and answers at each depth, and of many answers at once.

    Args:
        name: Of the shape.
        depths: Tokens before the measured ones.
        folder: For the model.
        peak: Of the memory, in gigabytes a second.
    """
    shape = SHAPES[name]
    path = folder / f"{name}.gguf"
    weights = write_model(shape, max(depths) + 2 * CHUNK + STEPS, path)
    say(f"{name}: {weights / 1e9:.1f} GB of weights")
    began = time.perf_counter()
    engine = _core.Engine.load(path, device="cuda", drafting="off", queue_limit=2 * TOGETHER)
    results: dict[str, object] = {
        "weight_bytes": weights,
        "load_seconds": round(time.perf_counter() - began, 2),
    }
    finish(ask(engine, prompt(CHUNK, 0), 4))
    kv_bytes = 2 * 2 * shape.layers * shape.kv_heads * shape.head
    at: dict[str, dict[str, float]] = {}
    for depth in depths:
        ids = prompt(depth, 1)
        if depth:
            finish(ask(engine, ids, 1))
        _, first = finish(ask(engine, ids + prompt(CHUNK, 2), 1))
        _, more = finish(ask(engine, ids + prompt(CHUNK, 2), STEPS))
        seconds = more.decode_ms / 1000 / (STEPS - 1)
        read = weights + kv_bytes * (depth + CHUNK)
        at[str(depth)] = {
            "prefill_tokens_per_second": round(
                (first.input_tokens - first.cached_tokens) / first.prefill_ms * 1000, 1
            ),
            "decode_tokens_per_second": round(1 / seconds, 1),
            "decode_gigabytes_per_second": round(read / seconds / 1e9, 1),
            "decode_share_of_peak": round(read / seconds / 1e9 / peak, 3) if peak else 0.0,
        }
        say(f"{name} at {depth}: {at[str(depth)]}")
    _, alone = finish(ask(engine, prompt(8, 9), STEPS))
    began = time.perf_counter()
    running = [ask(engine, prompt(8, 10 + index), STEPS) for index in range(TOGETHER)]
    last = [finish(generation)[1] for generation in running][-1]
    total = TOGETHER * STEPS / (time.perf_counter() - began)
    results |= {
        "at_depth": at,
        f"tokens_per_second_of_{TOGETHER}_answers": round(total, 1),
        f"step_of_{TOGETHER}_rows_over_step_of_1": round(last.decode_ms / alone.decode_ms, 3),
        "attention": attention(shape, max(depths) or CHUNK),
    }
    path.unlink()
    return results


def main() -> None:
    """Check, and print what was found."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--shapes", default="0.5B,1.5B,8B", help="of " + ", ".join(list(SHAPES)[1:]))
    parser.add_argument("--depths", default="0,8192,32000", help="tokens before the measured ones")
    parser.add_argument("--seconds", type=float, default=540, help="no part begins after this long")
    parser.add_argument("--out", type=Path, help="also write the JSON there")
    options = parser.parse_args()
    until = time.monotonic() + options.seconds
    report: dict[str, object] = {"build": _core.build_info(), "gpu": _core.gpu_info()}
    failures: list[str] = []

    def add(name: str, part: Callable[[], object], into: dict[str, object] = report) -> None:
        say(name)
        failures.append(name)
        if time.monotonic() > until:
            into[name] = {"error": f"not begun: {options.seconds:.0f} seconds were over"}
        else:
            try:
                into[name] = part()
                failures.remove(name)
            except Exception as error:  # noqa: BLE001 - whatever fails is what one wants to read in the report
                into[name] = {"error": f"{type(error).__name__}: {error}"}
        if options.out:
            options.out.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")

    if _core.gpu_info()["found"] != "yes":
        report["skipped"] = _core.gpu_info()["reason"]
        if options.out:
            options.out.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
    else:
        depths = [int(depth) for depth in options.depths.split(",")]
        with tempfile.TemporaryDirectory(dir=os.environ.get("TMPDIR")) as temporary:
            folder = Path(temporary)
            add("kernels", kernels)
            add("exactness", lambda: exactness(folder))
            peaks = [0.0]
            add("governor", lambda: governed(folder, peaks))
            speeds: dict[str, object] = {}
            report["speed"] = speeds
            for name in filter(None, options.shapes.split(",")):
                add(name, partial(speed, name, depths, folder, max(peaks)), speeds)
    print(json.dumps(report, indent=2))
    if failures:
        say(f"failed: {', '.join(failures)}")
        raise SystemExit(1)


if __name__ == "__main__":
    main()
