"""What rows that leave early save and cost: training, harm on held-out texts, decoding beside exact decoding.

`--data` names a folder with wikitext2_valid.txt, civil_code_contracts_zh.md, gsm8k_first400.jsonl and
spec_bench_questions.jsonl; code is the standard library of the Python that runs this. Exact and aggressive
answers are timed in turns on prompts that were no part of the training.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from report import Figure, versus, write_report

from zlrs import Engine
from zlrs.cli.dispatch import main as zlrs
from zlrs.exits import ExitReport, load_exits, report_of

CODE = ("argparse.py", "ast.py", "dataclasses.py", "inspect.py", "tarfile.py", "typing.py")
TRAINING_QUESTIONS = 300
"""Questions of the chat domain; the prompts of the timing come after them."""
PROMPTS = 12
DECODED_TOKENS = 96
CONTEXT_TOKENS = 1024
COUNTED_TOKENS = (1, 25)
"""Instructions of so many tokens are counted; the difference is that of decoding."""

CHILD = """
import sys
from zlrs import Engine
model, exits, tokens = sys.argv[1], sys.argv[2] or None, int(sys.argv[3])
with Engine.load(model, exits=exits, threads=1, context_tokens=128, drafting="off", progress=False) as engine:
    engine.generate("The capital of France is", max_tokens=tokens)
"""


def texts(data: Path, folder: Path) -> list[str]:
    """Four domains as files; returns prompts that are in none of them."""
    prose = (data / "wikitext2_valid.txt").read_text("utf-8")
    law = (data / "civil_code_contracts_zh.md").read_text("utf-8")
    library = Path(os.__file__).parent
    code = "\n".join((library / name).read_text("utf-8") for name in CODE)
    solved = [json.loads(line) for line in (data / "gsm8k_first400.jsonl").read_text("utf-8").splitlines()]
    asked = [
        json.loads(line) for line in (data / "spec_bench_questions.jsonl").read_text("utf-8").splitlines()
    ]
    chat = "\n\n".join(f"{one['question']}\n{one['answer']}" for one in solved[:TRAINING_QUESTIONS])
    for name, text in (("prose", prose), ("code", code), ("tables_and_law", law), ("chat", chat)):
        (folder / f"{name}.txt").write_text(text, "utf-8")
    prompts = [one["question"] for one in solved[TRAINING_QUESTIONS:]][: PROMPTS // 2]
    short = [turn for one in asked if len(turn := str(one["turns"][0])) < 600]
    return prompts + short[:: max(1, len(short) // (PROMPTS - len(prompts)))][: PROMPTS - len(prompts)]


def harm(report: ExitReport) -> str:
    """What was seen on held-out texts at the level in use, or at the first that was refused."""
    if not report.levels:
        return "no head found rows to let leave"
    level = report.levels[-1 if report.chosen is None else report.chosen]
    return "; ".join(
        f"{domain.domain} {domain.differing / domain.rows:.2%} other first choice (up to {domain.upper:.2%}),"
        f" {domain.left / domain.rows:.1%} of {domain.rows} rows leave"
        for domain in level.domains
    )


def speed(
    model: str, exits: Path, threads: int, prompts: list[str]
) -> tuple[list[float], list[float], float, float]:
    """Decoded tokens a second, exact and aggressive in turns; shares of equal tokens and layers left out."""
    exact: list[float] = []
    aggressive: list[float] = []
    equal = compared = left_out = rows = 0
    options = {"threads": threads, "context_tokens": CONTEXT_TOKENS, "drafting": "off", "exits": exits}
    with Engine.load(model, **options) as engine:
        layers = int(engine.info["layers"])
        for prompt in prompts:
            turns = [{"role": "user", "content": prompt}]
            answers = {}
            for compute, rates in (("exact", exact), ("aggressive", aggressive)):
                answer = engine.generate(turns, max_tokens=DECODED_TOKENS, compute=compute)
                if answer.usage.output_tokens > 1:
                    rates.append((answer.usage.output_tokens - 1) / (answer.timings.decode_ms / 1000))
                answers[compute] = answer
            one, other = answers["exact"].token_ids, answers["aggressive"].token_ids
            compared += max(len(one), len(other))
            equal += next(
                (i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b),
                min(len(one), len(other)),
            )
            left_out += answers["aggressive"].usage.row_layer_skips
            usage = answers["aggressive"].usage
            rows += (usage.input_tokens - usage.cached_tokens + usage.output_tokens) * layers
    return exact, aggressive, equal / max(compared, 1), left_out / max(rows, 1)


def instructions(model: str, exits: Path | None) -> int:
    """Instructions of decoding, exact, with or without heads installed."""
    counts = []
    for tokens in COUNTED_TOKENS:
        done = subprocess.run(
            [
                "valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", sys.executable, "-c", CHILD,
                model, str(exits or ""), str(tokens),
            ],
            check=True, capture_output=True, text=True,
        )  # fmt: skip
        found = re.search(r"Collected : (\d+)", done.stderr)
        if found is None:
            raise RuntimeError(done.stderr[-2000:])
        counts.append(int(found[1]))
    return counts[1] - counts[0]


def main() -> None:
    """Measure, print, and write docs/benchmarks/exits-NAME.json."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", required=True)
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("ZLRS_DATA", "data")) / "text")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--windows", type=int, default=20)
    parser.add_argument("--bound", type=float, default=0.01)
    parser.add_argument("--exits", type=Path, help="heads that were trained before, in place of a training")
    parser.add_argument("--count", action="store_true", help="count instructions too (valgrind)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        prompts = texts(options.data, folder)
        exits = options.exits or folder / "model.exits"
        started = time.perf_counter()
        if options.exits is None:
            arguments = ["exits", "train", options.model, "--data", str(folder), "--out", str(exits)]
            arguments += ["--windows", str(options.windows), "--threads", str(options.threads)]
            if zlrs([*arguments, "--bound", str(options.bound)]):
                raise SystemExit(1)
        minutes = (time.perf_counter() - started) / 60
        report = report_of(load_exits(exits))
        exact, aggressive, equal, left_out = speed(options.model, exits, options.threads, prompts)
        figures = [
            Figure(
                "exits: training", "min", minutes, target="<= 15 min", met=minutes <= 15,
                note="; ".join(
                    f"before layer {fit.layer} {fit.agreement:.1%} of first choices are final, area"
                    f" {fit.area_under_curve:.3f}"
                    for fit in report.fits
                ),
            ),
            Figure(
                f"exits: layers left out of held-out texts at <= {report.bound:.0%} other first choices", "%",
                report.saving() * 100, note=harm(report),
            ),
            versus(
                "decoding, aggressive (exits), batch 1", "tokens/s", statistics.median(aggressive),
                "exact", statistics.median(exact), target=">= 1.10 x",
                note=f"{left_out:.2%} of layers left out; {equal:.1%} of tokens before the first other one",
            ),
        ]  # fmt: skip
        if options.count:
            off, on = instructions(options.model, None), instructions(options.model, exits)
            figures.append(
                versus(
                    "exact decoding with exit heads installed", "instructions", on, "without", off,
                    target="<= 1.005 x",
                    note=f"{on / off - 1:+.4%}, 24 tokens, callgrind",
                )
            )  # fmt: skip
    write_report(f"exits-{options.model}", figures)


if __name__ == "__main__":
    main()
