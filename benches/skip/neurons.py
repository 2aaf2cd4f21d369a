"""Neurons whose gates let hardly anything through: harm beside what of it saves work, and decoding speed."""

from __future__ import annotations

import statistics
import time
from typing import TYPE_CHECKING

from report import Figure, versus

from zlrs import Engine, _core
from zlrs.models import resolve
from zlrs.neurons import save_neurons
from zlrs.profile import read_domains
from zlrs.profile.domains import sum_of
from zlrs.profile.neurons import choose, levels

if TYPE_CHECKING:
    from pathlib import Path

    from skip.setting import Setting
    from zlrs.results import Compute

WINDOW_TOKENS = 128
WINDOWS = 12
EVERY = 2
BOUND = 0.01
TRAIN_LIMIT_MIN = 15
DECODED_TOKENS = 64
CONTEXT_TOKENS = 512
PROMPT = "Write down, step by step, how one plants a row of young apple trees."
TIMED_SHARE = 0.5
"""Beside the share that keeps the bound, the speed of this one: what more daring would bring."""


def measure(setting: Setting) -> list[Figure]:
    """The curve of harm against share, then the speed of the one that keeps the bound and of a larger."""
    meter = _core.Meter.load(resolve(setting.model), window_tokens=WINDOW_TOKENS, threads=setting.threads)
    domains = read_domains(meter, setting.texts, window_tokens=WINDOW_TOKENS, windows=WINDOWS)
    started = time.perf_counter()
    found = levels(meter, domains, every=EVERY, progress=lambda line: print(f"  {line}", flush=True))
    minutes = (time.perf_counter() - started) / 60
    weights = bytes.fromhex(meter.empty_mask().weights_sha256)
    tied = {"model": setting.model, "weights_sha256": weights, "calibration_sha256": sum_of(setting.texts)}
    chosen = choose(found, bound=BOUND, **tied)
    daring = choose([level for level in found if level.share == TIMED_SHARE], bound=1.0, **tied)
    del meter
    target = f"<= {TRAIN_LIMIT_MIN} min"
    figures = [Figure("neurons: train", "min", minutes, target=target, met=minutes <= TRAIN_LIMIT_MIN)]
    for level in found:
        harm = "; ".join(
            f"{harm.domain} {harm.top1_disagreement:.1%} (up to {harm.top1_upper:.1%}), KL {harm.kl_mean:.4f}"
            f" (up to {harm.kl_upper:.4f})"
            for harm in level.harms
        )
        reach = level.reach
        where = (
            f"rows of up {reach.strips:.2%} (sorted {reach.sorted_strips:.2%}), columns of down in blocks of"
            f" 32 {reach.blocks_of_32:.2%}, of 256 {reach.blocks_of_256:.2%}"
        )
        note = f"where it saves work: {where}; other first choice: {harm}"
        figures.append(
            Figure(f"neurons: {level.share:.0%} of gates, left out", "%", 100 * reach.neurons, note=note)
        )
    for name, neurons in (("within the bound", chosen), (f"{TIMED_SHARE:.0%} of gates", daring)):
        path = setting.folder / "some.neurons"
        save_neurons(neurons, path)
        exact, aggressive = _speeds(setting, path)
        kept = max(neurons.thresholds) >= 0
        note = "" if kept else f"no share keeps {BOUND:.0%}: nothing is left out"
        figures.append(versus(f"neurons: decoding, {name}", "tok/s", aggressive, "exact", exact, note=note))
    return figures


def _speeds(setting: Setting, neurons: Path) -> tuple[float, float]:
    """Decoded tokens a second, exact and aggressive, medians of turns."""
    rates: dict[Compute, list[float]] = {"exact": [], "aggressive": []}
    with Engine.load(
        setting.model, neurons=neurons, threads=setting.threads, context_tokens=CONTEXT_TOKENS,
        drafting="off", progress=False,
    ) as engine:  # fmt: skip
        for turn in range(setting.rounds + 1):
            for compute, taken in rates.items():
                done = engine.generate(PROMPT, max_tokens=DECODED_TOKENS, compute=compute)
                if turn and done.usage.output_tokens > 1:  # the first turn warms up
                    taken.append((done.usage.output_tokens - 1) / (done.timings.decode_ms / 1000))
    return statistics.median(rates["exact"]), statistics.median(rates["aggressive"])
