"""Rows that leave early: training, harm on held-out texts, decoding, and what exact requests pay for it.

What they pay is counted with everything installed that leaves work out, and nothing of it asked for.

Domains too short to show a bound of 1 % are left out. Exact and aggressive answers are timed in turns on
prompts that were no part of the training.
"""

from __future__ import annotations

import re
import statistics
import subprocess
import sys
import time
from typing import TYPE_CHECKING

from report import Figure, versus

from zlrs import Engine, _core
from zlrs.cli.dispatch import main as zlrs
from zlrs.exits import load_exits, report_of
from zlrs.masks import save_mask
from zlrs.models import resolve
from zlrs.neurons import save_neurons

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from skip.setting import Setting
    from zlrs.exits import ExitReport

LEAST_CHARACTERS = 30_000
"""Text that fills the windows of a training."""
DECODED_TOKENS = 96
CONTEXT_TOKENS = 1024
INSTALLED_THRESHOLD = 0.4
COUNTED_TOKENS = (1, 25)
"""Instructions of answers of so many tokens are counted; the difference is that of decoding."""
PROMPTS = (
    "Write a Python function that merges two sorted lists.",
    "A shop sells pens at 3 for 4 dollars. How much do 18 pens cost? Explain step by step.",
    "Explain what a hash table is, and when it is slow.",
    "Write a letter to a landlord about a broken heater.",
    "List the planets of the solar system with one sentence about each.",
    "Write a Rust function that reverses the words of a sentence.",
    "What does a notary do, and when does one need one?",
    "Tell a short story about a lighthouse keeper and a lost dog.",
)
CHILD = """
import sys
from zlrs import Engine
model, tokens = sys.argv[1], int(sys.argv[2])
installed = dict(zip(("exits", "neurons", "draft_mask"), sys.argv[3:]))
with Engine.load(
    model, threads=1, context_tokens=128, drafting="off", self_drafting="off", progress=False, **installed
) as engine:
    engine.generate("The capital of France is", max_tokens=tokens)
"""


def measure(setting: Setting) -> list[Figure]:
    """Train, decode, count."""
    data = setting.folder / "exits"
    data.mkdir(exist_ok=True)
    for text in setting.texts:
        if len(text.text) >= LEAST_CHARACTERS:
            (data / f"{text.name}.txt").write_text(text.text, "utf-8")
    exits = setting.folder / "model.exits"
    started = time.perf_counter()
    options = ["--data", str(data), "--out", str(exits), "--threads", str(setting.threads)]
    if zlrs(["exits", "train", setting.model, *options]):
        raise SystemExit(1)
    minutes = (time.perf_counter() - started) / 60
    report = report_of(load_exits(exits))
    exact, aggressive, note = speed(setting, exits)
    off, on = instructions(setting.model, []), instructions(setting.model, [exits, *installed(setting)])
    return [
        Figure(
            "exits: training", "min", minutes, target="<= 15 min", met=minutes <= 15,
            note="; ".join(
                f"before layer {fit.layer} of {report.layers} {fit.agreement:.1%} of first choices are final,"
                f" area under the curve {fit.area_under_curve:.3f}"
                for fit in report.fits
            ),
        ),
        Figure(
            f"exits: layers left out on held-out texts at <= {report.bound:.0%} other first choices", "%",
            report.saving() * 100, note=harm(report),
        ),
        versus(
            "exits: decoding, aggressive, batch 1", "tokens/s", aggressive, "exact", exact,
            target=">= 1.10 x", note=note,
        ),
        versus(
            "exits: exact decoding, everything installed and off", "instructions", on, "without", off,
            target="<= 1.005 x",
            note=f"{on / off - 1:+.4%}, 24 tokens, callgrind, one thread; exit heads, thresholds of neurons,"
            " a mask to draft with",
        ),
    ]  # fmt: skip


def harm(report: ExitReport) -> str:
    """What was seen on held-out texts at the level in use, or at the first that was refused."""
    if not report.levels:
        return "no head found rows that could leave"
    kept = report.chosen is not None
    level = report.levels[report.chosen if report.chosen is not None else -1]
    seen = "; ".join(
        f"{domain.domain} {domain.differing / domain.rows:.2%} other first choice (up to {domain.upper:.2%}),"
        f" {domain.left / domain.rows:.1%} of {domain.rows} rows leave"
        for domain in level.domains
    )
    return seen if kept else f"no threshold keeps the bound; the most careful: {seen}"


def speed(setting: Setting, exits: Path) -> tuple[float, float, str]:
    """Decoded tokens a second, exact and, by the median ratio of pairs, aggressive; and what was left out."""
    rates: dict[str, list[float]] = {"exact": [], "aggressive": []}
    equal = compared = left_out = rows = 0
    with Engine.load(
        setting.model, threads=setting.threads, context_tokens=CONTEXT_TOKENS, drafting="off", exits=exits,
        progress=False,
    ) as engine:  # fmt: skip
        layers = int(engine.info["layers"])
        for turn in range(setting.rounds):
            for number, prompt in enumerate(PROMPTS):
                ids = engine.prepare([{"role": "user", "content": prompt}])
                answers = {}
                for compute in ("exact", "aggressive") if (turn + number) % 2 else ("aggressive", "exact"):
                    answer = engine.complete(ids, max_tokens=DECODED_TOKENS, compute=compute)
                    answers[compute] = answer
                if all(answer.usage.output_tokens > 1 for answer in answers.values()):
                    for compute, answer in answers.items():
                        seconds = answer.timings.decode_ms / 1000
                        rates[compute].append((answer.usage.output_tokens - 1) / seconds)
                one, other = answers["exact"].token_ids, answers["aggressive"].token_ids
                pairs = list(zip(one, other, strict=False))
                equal += next((index for index, (a, b) in enumerate(pairs) if a != b), len(pairs))
                compared += max(len(one), len(other))
                usage = answers["aggressive"].usage
                left_out += usage.row_layer_skips
                rows += (usage.input_tokens - usage.cached_tokens + usage.output_tokens) * layers
    note = (
        f"{left_out / max(rows, 1):.2%} of layers left out; {equal / max(compared, 1):.1%} of tokens before"
        " the first other one"
    )
    # Of pairs, as the machine is not equally fast all the time.
    pairs_of = zip(rates["exact"], rates["aggressive"], strict=True)
    ratio = statistics.median(aggressive / exact for exact, aggressive in pairs_of)
    exact = statistics.median(rates["exact"])
    return exact, exact * ratio, note


def installed(setting: Setting) -> tuple[Path, Path]:
    """Thresholds under which most neurons would count for nothing, and a mask to draft with."""
    mask = _core.Meter.load(resolve(setting.model), window_tokens=16).empty_mask()
    layers = len(mask.layers())
    weights = bytes.fromhex(mask.weights_sha256)
    neurons, drafts = setting.folder / "installed.neurons", setting.folder / "installed.mask"
    save_neurons(_core.Neurons(weights, bytes(32), [INSTALLED_THRESHOLD] * layers, "{}"), neurons)
    for layer in range(layers // 3, layers // 2):
        mask = mask.without(layer, "mlp")
    save_mask(mask, drafts)
    return neurons, drafts


def instructions(model: str, files: Sequence[Path]) -> int:
    """Instructions of exact decoding with heads, thresholds and a mask to draft with, or with nothing."""
    counts = []
    for tokens in COUNTED_TOKENS:
        done = subprocess.run(
            [
                "valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", sys.executable, "-c", CHILD,
                model, str(tokens), *map(str, files),
            ],
            check=True, capture_output=True, text=True,
        )  # fmt: skip
        found = re.search(r"Collected : (\d+)", done.stderr)
        if found is None:
            raise RuntimeError(done.stderr[-2000:])
        counts.append(int(found[1]))
    return counts[1] - counts[0]
