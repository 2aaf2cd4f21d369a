"""What every part measures with: the model, the texts, the threads."""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple

from report import ROOT

from zlrs.profile.domains import DomainText, read_texts

GSM8K = Path(__file__).resolve().parent / "gsm8k_excerpt.jsonl"
CODE = ROOT / "rust" / "zlrs-text" / "src"


class Setting(NamedTuple):
    """One run.

    Attributes:
        model: Name, path or URL.
        texts: By domain; `--data` or those of `default_texts`.
        threads: Worker threads.
        rounds: Turns of everything that is timed.
        folder: Where a part may leave files for the parts after it; removed in the end.
    """

    model: str
    texts: list[DomainText]
    threads: int
    rounds: int
    folder: Path


def default_texts() -> list[DomainText]:
    """Prose of Wikipedia, code of this repository, problems of GSM8K, the built-in texts of other kinds."""
    texts = {text.name: text.text for text in read_texts([])}
    texts["prose"] = (ROOT / "benches" / "engine" / "wikitext2_excerpt.txt").read_text("utf-8")
    texts["code"] = "\n".join(path.read_text("utf-8") for path in sorted(CODE.rglob("*.rs")))
    texts["maths"] = "\n\n".join(f"{entry['question']}\n{entry['answer']}" for entry in problems())
    return [DomainText(name, text) for name, text in sorted(texts.items())]


def problems() -> list[dict[str, str]]:
    """Question and worked answer of some problems of GSM8K."""
    lines = GSM8K.read_text("utf-8").splitlines()
    return [json.loads(line) for line in lines]
