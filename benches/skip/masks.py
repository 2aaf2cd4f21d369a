"""Masks: the curve of harm against saving, memory and decoding speed, each mask beside the full model."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from typing import TYPE_CHECKING, Any

from report import Figure, versus

from skip.setting import GSM8K
from zlrs import Engine, _core
from zlrs.masks import save_mask
from zlrs.models import resolve
from zlrs.profile import Budget, frontier, read_domains, spot
from zlrs.profile.domains import sum_of
from zlrs.profile.speed import Speeds, decoding_speeds
from zlrs.progress import StepProgress

if TYPE_CHECKING:
    from pathlib import Path

    from skip.setting import Setting
    from zlrs.profile.build import Built

WINDOW_TOKENS = 128
WINDOWS = 10
EVERY = 4
BUDGETS_KL = (0.01, 0.03, 0.1, 0.3)
"""The first is the budget of the target; the others draw the curve."""
REJECTIONS = 6
SEARCH_LIMIT_MIN = 30
CONTEXT_TOKENS = 512
KV_BYTES = 256 << 20
MISFIRES_PERCENT = 0.1
TASKS = 20


def measure(setting: Setting) -> list[Figure]:
    """Search once along the budgets, then load every mask."""
    meter = _core.Meter.load(resolve(setting.model), window_tokens=WINDOW_TOKENS, threads=setting.threads)
    domains = read_domains(meter, setting.texts, window_tokens=WINDOW_TOKENS, windows=WINDOWS)
    found = frontier(
        meter, domains, model=setting.model, calibration_sha256=sum_of(setting.texts),
        budgets=[Budget(kl, REJECTIONS, screening_windows=1) for kl in BUDGETS_KL], every=EVERY,
        progress=StepProgress("masks").update,
    )  # fmt: skip
    del meter
    minutes = found[0].report.search_s / 60
    tokens = sum(len(window) for domain in domains for window in domain.windows)
    note = f"{found[0].report.evaluations} masks measured on {tokens} tokens of {len(domains)} domains"
    target = f"<= {SEARCH_LIMIT_MIN} min"
    figures = [
        Figure("masks: build", "min", minutes, target=target, met=minutes <= SEARCH_LIMIT_MIN, note=note)
    ]
    seen: list[list[str]] = []
    for built in found:
        if built.report.parts and built.report.parts not in seen:
            seen.append(built.report.parts)
            figures += _figures(setting, built)
        else:
            what = "the same mask as before" if built.report.parts else "no part keeps the budget"
            figures.append(Figure(f"masks: KL <= {built.report.budget_kl:g}", "%", 0.0, note=what))
    return figures


def _figures(setting: Setting, built: Built) -> list[Figure]:
    """One point of the curve: harm, and what a load with the mask saves of bytes, memory and time."""
    report, gain = built.report, built.report.gain
    name = f"masks: KL <= {report.budget_kl:g}"
    path = setting.folder / f"kl-{report.budget_kl:g}.mask"
    save_mask(built.mask, path)
    saved = 100 * (1 - gain.token_bytes / gain.token_bytes_full)
    harm = "; ".join(
        f"{harm.domain} {harm.kl_mean:.4f} (up to {harm.kl_upper:.4f}, p99 {harm.kl_p99:.2f}), perplexity"
        f" x {harm.perplexity_ratio:.3f}, other first choice {harm.top1_disagreement:.1%}"
        f" (up to {harm.top1_upper:.1%})"
        for harm in report.held_out
    )
    kinds = Counter(part.split()[2] for part in report.parts)
    out = ", ".join(f"{count} x {kind}" for kind, count in kinds.items())
    parts = f"Out: {out} (heads: one of each KV group); {report.steps_back} tries put back"
    rows = sum(harm.rows for harm in report.held_out)
    differing = sum(harm.rows * harm.top1_disagreement for harm in report.held_out)
    misfires = 100 * differing / rows
    decoding, checks = _asked(setting, path)
    resident = [_resident_mb(setting, None), _resident_mb(setting, path)]
    full = "full model"
    return [
        Figure(f"{name}: weights not read for a token", "%", saved, note=f"{parts}. Held out: {harm}"),
        versus(
            f"{name}: keys and values of a token", "bytes", gain.kv_token_bytes, full,
            gain.kv_token_bytes_full,
        ),
        versus(
            f"{name}: packed weights", "MB", gain.weight_bytes / 1e6, full, gain.weight_bytes_full / 1e6,
            note=f"peak memory of a process that loaded it: {resident[1]:.0f} MB, full {resident[0]:.0f} MB",
        ),
        versus(f"{name}: decoding", "tok/s", decoding.masked, full, decoding.full),
        Figure(
            f"{name}: other first choice than the full model", "%", misfires,
            target=f"<= {MISFIRES_PERCENT:g} %", met=misfires <= MISFIRES_PERCENT,
            note=f"{rows} rows held out, teacher-forced",
        ),
        *(
            Figure(
                f"{name}: {check.name} tasks solved", f"of {check.asked}", check.masked_right, full,
                check.full_right, note=f"{check.same_answers} answers are the same",
            )
            for check in checks
        ),
    ]  # fmt: skip


def _asked(setting: Setting, mask: Path) -> tuple[Speeds, list[spot.SpotCheck]]:
    """Tokens a second of the full and of the masked model, medians of turns; and what both solve of tasks."""
    options: dict[str, Any] = {
        "threads": setting.threads, "context_tokens": CONTEXT_TOKENS, "kv_bytes": KV_BYTES, "progress": False,
        "drafting": "off",
    }  # fmt: skip
    with (
        Engine.load(setting.model, **options) as full,
        Engine.load(setting.model, mask=mask, **options) as masked,
    ):
        speeds = decoding_speeds(full, masked, setting.rounds)
        checks = [
            spot.check(full, masked, "json", spot.json_tasks(TASKS), spot.JSON_TOKENS),
            spot.check(full, masked, "gsm8k", spot.gsm8k_tasks(GSM8K, TASKS), spot.GSM8K_TOKENS),
        ]
    return speeds, checks


def _resident_mb(setting: Setting, mask: Path | None) -> float:
    """Resident memory of a fresh process that loaded the model and answered, its peak."""
    # The kernel's own count of this program: getrusage also knows the memory of the process that started it.
    code = (
        "import re, sys\n"
        "from pathlib import Path\n"
        "from zlrs import Engine\n"
        "model, threads, context, mask = sys.argv[1:]\n"
        "with Engine.load(model, threads=int(threads), context_tokens=int(context), mask=mask or None,"
        " progress=False) as engine:\n"
        "    engine.generate('Hello.', max_tokens=2)\n"
        "    peak = re.search(r'VmHWM:\\s*(\\d+)', Path('/proc/self/status').read_text())\n"
        "print(int(peak[1]) * 1.024e-3)\n"
    )
    arguments = [setting.model, str(setting.threads), str(CONTEXT_TOKENS), str(mask or "")]
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=True
    )
    return float(done.stdout)
