"""A hit beside a whole answer of the engine, both over HTTP from one server."""

from __future__ import annotations

import asyncio
import statistics
import tempfile
import time
from pathlib import Path

import aiohttp
from report import Figure
from serve import servers

from zlrs.models import resolve

MODEL = "qwen2.5-coder-0.5b-instruct-q4_k_m"
TOKENS = 256
"""An answer that is cut off is not kept."""
ASKED = (
    "What does a hash table do?", "Name the four seasons.", "What keeps a bicycle upright?",
    "Which gases is air made of?", "Why is the sky blue?", "What is bread made of?",
    "What does a compiler do?", "Who wrote Hamlet?",
)  # fmt: skip
REPEATS = 20


def figures(threads: int) -> list[Figure]:
    """Every question once, then again and again."""
    with tempfile.TemporaryDirectory(prefix="zlrs-bench-") as folder:
        settings = Path(folder) / "zlrs.toml"
        settings.write_text(f'[graph]\nenabled = true\npath = "{folder}/graph"\n', encoding="utf-8")
        with servers.ours(resolve(MODEL), threads, "--config", str(settings)) as server:
            computed, hits = asyncio.run(_asked(server.url))
    ratio = statistics.median(computed) / statistics.median(hits)
    return [
        Figure(
            "a hit beside a whole answer of the 0.5B engine", "ms", statistics.median(hits),
            f"computed, {TOKENS} tokens at most", statistics.median(computed), ratio,
            target=">= 27 x faster", met=ratio >= 27,
            note=f"{ratio:.0f} times faster; over HTTP, {threads} threads, medians of"
            f" {len(computed)} answers and {len(hits)} hits",
        )
    ]  # fmt: skip


async def _asked(url: str) -> tuple[list[float], list[float]]:
    """Milliseconds of computed answers and of hits.

    Raises:
        RuntimeError: A question is answered as it should not be.
    """
    taken: dict[str, list[float]] = {"miss": [], "hit": []}
    async with aiohttp.ClientSession() as session:
        for turn in range(REPEATS + 1):
            for question in ASKED:
                body = {
                    "model": MODEL, "max_tokens": TOKENS, "temperature": 0,
                    "messages": [{"role": "user", "content": f"In one short sentence: {question}"}],
                }  # fmt: skip
                began = time.perf_counter()
                async with session.post(f"{url}/v1/messages", json=body) as answer:
                    await answer.read()
                    kind = answer.headers["X-ZLRS-Decision"].split(";")[0]
                if kind != ("hit" if turn else "miss"):
                    raise RuntimeError(f"expected a {'hit' if turn else 'miss'}: {question}")
                taken[kind].append((time.perf_counter() - began) * 1000)
    return taken["miss"], taken["hit"]
