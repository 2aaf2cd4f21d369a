"""Asks that want different answers: generated flips, questions of different intents, reworded sentences.

The flips are generated; the other two need `ZLRS_DATA`, a folder with `intents/banking77_train.csv`
(Banking77, CC BY 4.0), `intents/clinc150_train_val.json` (CLINC150, CC BY 3.0) and `pairs/gptcache_999.json`
(GPTCache, MIT).
"""

from __future__ import annotations

import csv
import json
import os
import subprocess
import tempfile
from collections import defaultdict
from pathlib import Path

from report import ROOT, Figure

from graph.peers import pairs_figure
from graph.replay import HEAD, OK, START_MS, limit
from graph.traffic import body_of
from zlrs.graph import DecisionGraph, GraphSettings

# One question with two labels in the data: it differs in a contraction alone.
LABELLED_TWICE = {"what is my pay", "what's my pay"}
# The routes that need a proof: a request that one of them speaks about would be served once its class has it.
PROVEN = ("canonical", "edge")
Request = tuple[str, str, str, list[tuple[bytes, bytes]], bytes, str]


def data() -> Path | None:
    """The folder with the data that is not part of this repository."""
    folder = os.environ.get("ZLRS_DATA")
    return Path(folder) if folder else None


def _request(text: str, scope: str) -> Request:
    body = {
        "model": "table", "max_tokens": 64, "temperature": 0, "system": scope,
        "messages": [{"role": "user", "content": text}],
    }  # fmt: skip
    headers = [(b"x-api-key", b"bench"), (b"content-type", b"application/json")]
    return "POST", "/v1/messages", "", headers, json.dumps(body).encode(), "table"


def flips() -> list[Figure]:
    """Every generated pair in a scope of its own: one side known and confirmed, the other asked."""
    command = ["cargo", "run", "--release", "--locked", "--quiet", "-p", "zlrs-text", "--example", "flips"]
    lines = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
    served: dict[str, int] = defaultdict(int)
    known = count = chinese = 0
    with DecisionGraph(None, GraphSettings(canonical="bounded", max_entries=1_000_000)) as graph:
        for number, line in enumerate(lines):
            kind, left, right = line.split("\t")
            chinese += any("\u4e00" <= letter <= "\u9fff" for letter in left)
            now_ms = START_MS + number * 10
            for step, text in enumerate((left, f" {left}")):
                decision = graph.decide(*_request(text, str(number)), now_ms + step)
                graph.settle(decision, OK, HEAD, body_of("The answer.", "end_turn"), True, now_ms + step)
            count += 1
            asked = graph.decide(*_request(right, str(number)), now_ms + 5)
            served[kind] += asked.kind == "hit" or asked.route in PROVEN
            known += graph.decide(*_request(f"{left} ", str(number)), now_ms + 6).route in PROVEN
    wrong = sum(served.values())
    note = (
        f"{len(served)} kinds, {chinese} in Chinese; {limit(wrong, count)}; "
        f"the known side again in another wording: {known} met"
    )
    return [
        Figure(
            "generated flips: met over any route", "count", wrong, target="0 of >= 5000",
            met=wrong == 0 and count >= 5000, note=note,
        )
    ]  # fmt: skip


def _entries(texts: list[str]) -> list[str]:
    """The canonical entry of each text, as the audit log has it."""
    with tempfile.TemporaryDirectory(prefix="zlrs-bench-") as folder:
        path = Path(folder) / "graph"
        with DecisionGraph(path, GraphSettings(read_deadline_ms=1000)) as graph:
            order = []
            for number, text in enumerate(texts):
                order.append(graph.decide(*_request(text, "one scope"), START_MS + number).audit)
                if number % 1000 == 0:
                    graph.flush()
            graph.flush()
        found = {}
        for chain in (path / "audit").glob("*.jsonl"):
            for line in chain.read_text(encoding="utf-8").splitlines():
                record = json.loads(line)["body"]
                if record.get("kind") == "decision" and "canonical" in record:
                    found[record["id"]] = record["canonical"]["entry"]
    return [found.get(name, name) for name in order]


def intents(folder: Path | None) -> list[Figure]:
    """All pairs of questions of different intents, within each set."""
    name = "questions of different intents that are one to the canonical route"
    if folder is None:
        return [Figure(name, "count", 0, note="not run: ZLRS_DATA names no folder")]
    with (folder / "intents" / "banking77_train.csv").open(encoding="utf-8", newline="") as rows:
        banking = [(row["text"], row["category"]) for row in csv.DictReader(rows)]
    parts = json.loads((folder / "intents" / "clinc150_train_val.json").read_text(encoding="utf-8"))
    clinc = [(text, label) for part in parts.values() for text, label in part]
    collisions = pairs = identical = 0
    for questions in (banking, clinc):
        texts = sorted({text for text, _ in questions})
        entry_of = dict(zip(texts, _entries(texts), strict=True))
        by_label: dict[str, int] = defaultdict(int)
        groups: dict[str, list[tuple[str, str]]] = defaultdict(list)
        for text, label in questions:
            by_label[label] += 1
            groups[entry_of[text]].append((text, label))
        total = sum(by_label.values())
        pairs += (total * total - sum(count * count for count in by_label.values())) // 2
        for group in groups.values():
            for at, (text, label) in enumerate(group):
                for other, other_label in group[at + 1 :]:
                    if label != other_label:
                        same = text == other or {text, other} <= LABELLED_TWICE
                        identical += same
                        collisions += not same
    note = f"{pairs:,} pairs of Banking77 and CLINC150; {identical} are one string with two labels"
    return [Figure(name, "count", collisions, target="0", met=collisions == 0, note=note)]


def sentences(folder: Path | None) -> list[Figure]:
    """Reworded sentences, as GPTCache scores them: all originals known, each reworded one asked once."""
    if folder is None:
        return [
            Figure("zlrs: sentence pairs, wrong per hit", "%", 0, note="not run: ZLRS_DATA names no folder")
        ]
    data_of = json.loads((folder / "pairs" / "gptcache_999.json").read_text(encoding="utf-8"))
    entries = _entries([pair["origin"] for pair in data_of] + [pair["similar"] for pair in data_of])
    count = len(data_of)
    known = {entry: number for number, entry in enumerate(entries[:count])}
    found = [known.get(entry) for entry in entries[count:]]
    right = sum(answer == number for number, answer in enumerate(found))
    miss = found.count(None)
    return [pairs_figure("zlrs, same and canonical", right, count - right - miss, miss)]
