"""Peers on the same traffic. Runs in their own environment, with nothing of ours but `graph.traffic`.

    PYTHON_OF_THE_PEERS -m graph.peer_run OUT.json REQUESTS QUESTIONS SEED [PAIRS.json]

Both get the vectors of one embedding model, all-MiniLM-L6-v2, computed beforehand: what is compared is what
they decide, not how fast. GPTCache is set up as its documentation does (SQLite, faiss, distance evaluation,
threshold 0.8); cachellm with its own settings for this model (exact tier, then cosine at its calibrated
threshold).
"""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from all_minilm_l6_v2 import get_model_path
from sentence_transformers import SentenceTransformer

from graph.traffic import Ask, Faults, Upstream, says, traffic

OK = 200
DIMENSION = 384


class Vectors:
    """Unit vectors of texts, each computed once."""

    def __init__(self, folder: Path) -> None:
        self._model = SentenceTransformer(str(get_model_path(str(folder))), device="cpu")
        self._known: dict[str, Any] = {}

    def learn(self, texts: list[str]) -> None:
        """Compute those that are not known yet, together."""
        new = sorted(set(texts) - self._known.keys())
        found = self._model.encode(new, batch_size=256, normalize_embeddings=True) if new else []
        self._known.update(zip(new, np.asarray(found, dtype=np.float32), strict=True))

    def of(self, text: str) -> Any:
        """One vector."""
        if text not in self._known:
            self.learn([text])
        return self._known[text]


class GptCache:
    """As in its README's semantic set-up."""

    name = "gptcache"

    def __init__(self, folder: Path, vectors: Vectors) -> None:
        from gptcache import Cache, Config
        from gptcache.manager import CacheBase, VectorBase, get_data_manager
        from gptcache.processor.pre import get_prompt
        from gptcache.similarity_evaluation.distance import SearchDistanceEvaluation

        folder.mkdir()
        manager = get_data_manager(
            CacheBase("sqlite", sql_url=f"sqlite:///{folder}/sqlite.db"),
            VectorBase("faiss", dimension=DIMENSION, index_path=str(folder / "faiss.index")),
        )
        self._cache = Cache()
        self._cache.init(
            embedding_func=lambda text, **_: vectors.of(text),
            data_manager=manager,
            similarity_evaluation=SearchDistanceEvaluation(),
            pre_embedding_func=get_prompt,
            config=Config(similarity_threshold=0.8),
        )

    def get(self, text: str) -> str | None:
        """What it would answer."""
        from gptcache.adapter.api import get

        found = get(text, cache_obj=self._cache)
        return str(found) if found is not None else None

    def put(self, text: str, answer: str) -> None:
        """Keep an answer."""
        from gptcache.adapter.api import put

        put(text, answer, cache_obj=self._cache)


class CacheLlm:
    """The proxy's cache service, in memory."""

    name = "cachellm"

    def __init__(self, _folder: Path, vectors: Vectors) -> None:
        from cachellm.cache.memory import MemoryAnalytics, MemoryExactStore, MemoryVectorStore
        from cachellm.cache.service import CacheService
        from cachellm.embeddings.base import Embedder
        from cachellm.settings import Settings

        class Given(Embedder):
            name, dim = "all-MiniLM-L6-v2", DIMENSION

            async def embed(self, text: str) -> Any:
                return vectors.of(text)

            async def embed_batch(self, texts: list[str]) -> list[Any]:
                return [vectors.of(text) for text in texts]

        settings = Settings(embedding_model="sentence-transformers/all-MiniLM-L6-v2")
        self._loop = asyncio.new_event_loop()
        self._service = CacheService(
            settings=settings,
            embedder=Given(),
            vectors=MemoryVectorStore(settings),
            exact=MemoryExactStore(settings),
            analytics=MemoryAnalytics(settings),
        )
        self._last: Any = None

    def _request(self, text: str) -> Any:
        from cachellm.models import ChatCompletionRequest

        system = {"role": "system", "content": "You are the support assistant of a bookshop."}
        return ChatCompletionRequest(
            model="table", messages=[system, {"role": "user", "content": text}], temperature=0, max_tokens=64
        )

    def get(self, text: str) -> str | None:
        """What it would answer."""
        self._last = self._loop.run_until_complete(self._service.lookup(self._request(text), "table"))
        return str(self._last.entry.response_text) if self._last.served_from_cache else None

    def put(self, text: str, answer: str) -> None:
        """Keep an answer."""
        if self._last is None:
            self._last = self._loop.run_until_complete(self._service.lookup(self._request(text), "table"))
        self._loop.run_until_complete(
            self._service.store(
                lookup=self._last, request=self._request(text), provider_name="table", response_text=answer,
                prompt_tokens=30, completion_tokens=12, finish_reason="stop",
            )
        )  # fmt: skip
        self._last = None


def replay(peer: GptCache | CacheLlm, asks: list[Ask], upstream: Upstream) -> dict[str, float]:
    """Send the traffic through a peer."""
    hits = wrong = 0
    for ask in asks:
        answer = peer.get(ask.text)
        if answer is not None:
            hits += 1
            wrong += not says(answer, upstream.truth(ask.question))
            continue
        status, body = upstream.answer(ask.question)
        if status == OK:
            message = json.loads(body)
            if message["stop_reason"] == "end_turn":
                peer.put(ask.text, message["content"][0]["text"])
    return {"requests": len(asks), "hits": hits, "wrong": wrong, "calls": upstream.calls}


def pairs(peer: GptCache | CacheLlm, path: Path) -> dict[str, int]:
    """The peer's own scoring: all originals stored, then each similar sentence asked once."""
    data = json.loads(path.read_text(encoding="utf-8"))
    for number, pair in enumerate(data):
        peer.put(pair["origin"], str(number))
    found = {"right": 0, "wrong": 0, "miss": 0}
    for number, pair in enumerate(data):
        answer = peer.get(pair["similar"])
        found["miss" if answer is None else "right" if answer == str(number) else "wrong"] += 1
    return found


def main() -> None:
    """Run both and write what came of it."""
    import logging

    import structlog

    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    out, requests, questions, seed = Path(sys.argv[1]), *map(int, sys.argv[2:5])
    sentences = Path(sys.argv[5]) if len(sys.argv) > 5 else None
    asks = traffic(requests, questions, seed)
    results: dict[str, dict[str, object]] = {}
    with tempfile.TemporaryDirectory(prefix="zlrs-peers-") as folder:
        vectors = Vectors(out.parent)
        vectors.learn([ask.text for ask in asks])
        for kind in (GptCache, CacheLlm):
            upstream = Upstream(seed + 1, Faults())
            peer = kind(Path(folder) / kind.name, vectors)
            results[kind.name] = {"replay": replay(peer, asks, upstream)}
            if sentences is not None:
                peer = kind(Path(folder) / f"{kind.name}-pairs", vectors)
                results[kind.name]["pairs"] = pairs(peer, sentences)
            out.write_text(json.dumps(results), encoding="utf-8")


if __name__ == "__main__":
    main()
