"""What leaving parts of a model out saves and costs: the curve of harm against saving, memory and speed.

Every mask on the way of one search is measured on texts that the search did not look at. Decoding is timed
with the full model and the masked one in turns.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from pathlib import Path

from report import Figure, versus, write_report

from zlrs import Engine, _core
from zlrs.masks import save_mask
from zlrs.models import resolve
from zlrs.profile import Budget, Domain, read_domains
from zlrs.profile.domains import read_texts, sum_of
from zlrs.profile.search import Search, build, gain_of

WINDOW_TOKENS = 128
WINDOWS = 8
EVERY = 4
CURVE_KL = 0.5
"""The search for the curve goes on to this divergence."""
BUDGET_KL = 0.01
DECODED_TOKENS = 64
CONTEXT_TOKENS = 512
PROMPT = "Write down, step by step, how one plants a row of young apple trees."


def curve(meter: _core.Meter, domains: list[Domain], model: str, calibration: bytes) -> list[Figure]:
    """Harm and saving of every mask on the way."""
    built = build(
        meter, domains, model=model, calibration_sha256=calibration,
        budget=Budget(CURVE_KL), every=EVERY, progress=print,
    )  # fmt: skip
    search = Search(meter, domains, EVERY)
    figures = []
    for step in built.steps[1:]:
        gain = gain_of(meter, step.mask)
        harms = search.held_out(step.mask)
        worst = max(harms, key=lambda harm: harm.kl_mean)
        saved = 1 - gain.token_bytes / gain.token_bytes_full
        kv_saved = 1 - gain.kv_token_bytes / gain.kv_token_bytes_full
        figures.append(
            Figure(
                f"curve: {len(step.parts)} parts out, the last {step.parts[-1]}: bytes a token saved",
                "", saved,
                note=f"worst domain {worst.domain}: divergence {worst.kl_mean:.4f}"
                f" (up to {worst.kl_upper:.4f}, p99 {worst.kl_p99:.3f}),"
                f" perplexity x {worst.perplexity_ratio:.3f},"
                f" other first choice {worst.top1_disagreement:.1%}"
                f" (up to {max(harm.top1_upper for harm in harms):.1%}),"
                f" {worst.rows} rows a domain; KV saved {kv_saved:.1%}",
            )
        )  # fmt: skip
    return figures


def speed(model: str, mask: Path, threads: int, rounds: int) -> tuple[float, float]:
    """Decoded tokens a second of the full and of the masked model, medians of turns."""
    options = {"threads": threads, "context_tokens": CONTEXT_TOKENS}
    with Engine.load(model, **options) as full, Engine.load(model, mask=mask, **options) as masked:
        taken: tuple[list[float], list[float]] = ([], [])
        for _ in range(rounds):
            for engine, rates in zip((full, masked), taken, strict=True):
                started = time.perf_counter()
                answer = engine.generate(PROMPT, max_tokens=DECODED_TOKENS)
                taken_s = time.perf_counter() - started - answer.timings.prefill_ms / 1000
                rates.append(answer.usage.output_tokens / taken_s)
    return statistics.median(taken[0]), statistics.median(taken[1])


def main() -> None:
    """Measure, print, and write docs/benchmarks/skip-NAME.json."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", required=True)
    parser.add_argument("--data", nargs="*", type=Path, default=[], help="texts, one domain a file")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    texts = read_texts(options.data)
    meter = _core.Meter.load(resolve(options.model), window_tokens=WINDOW_TOKENS, threads=options.threads)
    domains = read_domains(meter, texts, window_tokens=WINDOW_TOKENS, windows=WINDOWS)
    started = time.perf_counter()
    built = build(
        meter, domains, model=options.model, calibration_sha256=sum_of(texts),
        budget=Budget(BUDGET_KL), every=EVERY, progress=print,
    )  # fmt: skip
    minutes = (time.perf_counter() - started) / 60
    gain = built.report.gain
    figures = curve(meter, domains, options.model, sum_of(texts))
    del meter
    with tempfile.TemporaryDirectory() as folder:
        mask = Path(folder) / "budget.mask"
        save_mask(built.mask, mask)
        full, masked = speed(options.model, mask, options.threads, options.rounds)
    parts = f"{len(built.report.parts)} parts left out, {built.report.steps_back} put back"
    harm = "; ".join(
        f"{harm.domain} {harm.kl_mean:.4f} (up to {harm.kl_upper:.4f}),"
        f" other first choice {harm.top1_disagreement:.1%} (up to {harm.top1_upper:.1%})"
        for harm in built.report.held_out
    )
    write_report(
        f"skip-{options.model}",
        [
            Figure("mask build", "min", minutes, target="<= 30 min", met=minutes <= 30),
            versus(
                f"mask at KL <= {BUDGET_KL}: bytes of weights read a token", "MB", gain.token_bytes / 1e6,
                "full model", gain.token_bytes_full / 1e6, note=f"{parts}; held out: {harm}",
            ),
            versus(
                f"mask at KL <= {BUDGET_KL}: packed weights", "MB", gain.weight_bytes / 1e6, "full model",
                gain.weight_bytes_full / 1e6,
            ),
            versus(
                f"mask at KL <= {BUDGET_KL}: keys and values a token", "bytes", gain.kv_token_bytes,
                "full model", gain.kv_token_bytes_full,
            ),
            versus(f"mask at KL <= {BUDGET_KL}: decoding", "tok/s", masked, "full model", full),
            *figures,
        ],
    )  # fmt: skip


if __name__ == "__main__":
    main()
