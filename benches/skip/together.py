"""A mask, exit heads and neurons at once: decoding beside the full model's, and other first choices.

Each is found on the first part of every text, exit heads and neurons with the mask in use, and each alone
keeps its own bound; what all of them do together nobody promises, and is measured here. The rest of the texts
gives the prompts: the lessened model goes on with them, and the full model reads every answer again. At each
place, would it have chosen the same token?
"""

from __future__ import annotations

import asyncio
import statistics
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from report import Figure, versus

from skip.exits import CONTEXT_TOKENS, DECODED_TOKENS, PROMPTS
from zlrs import Engine, _core
from zlrs.cli.dispatch import main as zlrs
from zlrs.exits import load_exits
from zlrs.exits import report_of as exits_report
from zlrs.masks import save_mask
from zlrs.models import resolve
from zlrs.neurons import report_of as neurons_report
from zlrs.neurons import save_neurons
from zlrs.profile import Budget, build, proportion_upper, read_domains
from zlrs.profile.domains import DomainText, sum_of
from zlrs.profile.neurons import choose, levels
from zlrs.progress import StepProgress
from zlrs.server.misfires import STOP, first_choices
from zlrs.work import Work

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from skip.setting import Setting
    from zlrs.profile import Domain

TRAINED_SHARE = 0.75
"""Of every text, from its beginning; the rest is held out."""
LEAST_CHARACTERS = 20_000
"""Exit heads and neurons are found on texts that can show a bound of 1 %; the mask on all."""
MASK_KL = 0.01
MASK_WINDOWS = 10
MASK_EVERY = 4
REJECTIONS = 6
SHARES = (0.02, 0.05, 0.1, 0.2, 0.3)
NEURON_WINDOWS = 9
"""Of three texts, every row: as many as a meter keeps of the largest vocabulary."""
WINDOW_TOKENS = 128
BOUND = 0.01
KV_BYTES = 256 << 20
HELD_OUT_WINDOWS = 16
HELD_OUT_TOKENS = 64
ANSWER_TOKENS = 48


class Made(NamedTuple):
    """What is left out of the lessened model, and the prompts that nothing of it was found on."""

    mask: Path
    exits: Path
    neurons: Path
    about: str
    held_out: list[Domain]


class Seen(NamedTuple):
    """Answers of one domain, read again."""

    domain: str
    rows: int
    differing: int


def measure(setting: Setting) -> list[Figure]:
    """Find all three, time them beside the full model, and have it read their answers again."""
    started = time.perf_counter()
    made = make(setting)
    minutes = (time.perf_counter() - started) / 60
    options: dict[str, Any] = {
        "threads": setting.threads, "context_tokens": CONTEXT_TOKENS, "kv_bytes": KV_BYTES, "progress": False,
        "drafting": "off",
    }  # fmt: skip
    with (
        Engine.load(setting.model, **options) as full,
        Engine.load(
            setting.model, mask=made.mask, exits=made.exits, neurons=made.neurons, **options
        ) as lessened,
    ):
        exact, aggressive, saved = speed(full, lessened, setting.rounds // 2 + 1)
        seen = asyncio.run(read_again(full, lessened, made.held_out))
    rows, differing = sum(domain.rows for domain in seen), sum(domain.differing for domain in seen)
    upper = proportion_upper(differing, rows)
    harm = f"{differing / rows:.2%} other first choices (up to {upper:.2%})"
    by_domain = "; ".join(
        f"{domain.domain} {domain.differing / domain.rows:.1%}"
        f" (up to {proportion_upper(domain.differing, domain.rows):.1%})"
        for domain in seen
    )
    return [
        Figure("together: mask, exit heads and neurons found", "min", minutes, note=made.about),
        decoding(exact, aggressive, f"{saved:.2%} of multiply-adds left out by mask, exits; {harm}", upper),
        Figure(
            "together: other first choice than the full model, upper bound", "%", 100 * upper,
            target="<= 1 %", met=upper <= BOUND,
            note=f"{differing} of {rows} tokens that followed held-out texts, read again by the full model;"
            f" 95 %, Clopper-Pearson; {by_domain}",
        ),
    ]  # fmt: skip


def decoding(exact: float, aggressive: float, note: str, upper: float) -> Figure:
    """The speed; what keeps no bound of other first choices meets no target, however fast."""
    figure = versus(
        "together: decoding, mask, exits and neurons, batch 1", "tokens/s", aggressive, "full model, exact",
        exact, target=">= 1.10 x", note=note,
    )  # fmt: skip
    return replace(figure, met=figure.met and upper <= BOUND)


def make(setting: Setting) -> Made:
    """The smallest mask, then exit heads and neurons with it, all from the first part of every text."""
    folder = setting.folder / "together"
    data = folder / "data"
    data.mkdir(parents=True)
    texts, rest = split(setting.texts)
    long = [text for text in texts if len(text.text) >= LEAST_CHARACTERS] or texts
    mask, exits, neurons = (folder / f"model.{name}" for name in ("mask", "exits", "neurons"))
    meter = _core.Meter.load(resolve(setting.model), window_tokens=WINDOW_TOKENS, threads=setting.threads)
    built = build(
        meter, read_domains(meter, texts, window_tokens=WINDOW_TOKENS, windows=MASK_WINDOWS),
        model=setting.model, calibration_sha256=sum_of(texts),
        budget=Budget(MASK_KL, REJECTIONS, screening_windows=1), every=MASK_EVERY,
        progress=StepProgress("together").update,
    )  # fmt: skip
    save_mask(built.mask, mask)
    chosen = choose(
        levels(
            meter, read_domains(meter, long, window_tokens=WINDOW_TOKENS, windows=NEURON_WINDOWS),
            shares=SHARES, mask=built.mask, progress=lambda line: print(f"  {line}", flush=True),
        ),
        model=setting.model, weights_sha256=bytes.fromhex(built.mask.weights_sha256),
        calibration_sha256=sum_of(long), bound=BOUND, mask=built.mask,
    )  # fmt: skip
    save_neurons(chosen, neurons)
    held_out = read_domains(meter, rest, window_tokens=HELD_OUT_TOKENS, windows=HELD_OUT_WINDOWS)
    del meter
    for text in long:
        (data / f"{text.name}.txt").write_text(text.text, "utf-8")
    options = ["--data", str(data), "--mask", str(mask), "--threads", str(setting.threads)]
    if zlrs(["exits", "train", setting.model, *options, "--out", str(exits)]):
        raise SystemExit(1)
    gain = built.report.gain
    share = neurons_report(chosen).share
    gates = f"{share:.0%} of gates" if share else f"none, no share keeps {BOUND:.0%}"
    about = (
        f"left out: mask, {1 - gain.token_bytes / gain.token_bytes_full:.2%} of the weights read for a token;"
        f" exit heads, {exits_report(load_exits(exits)).saving():.2%} of layers on their own held-out texts;"
        f" neurons, {gates}"
    )
    return Made(mask, exits, neurons, about, held_out)


def split(texts: Sequence[DomainText]) -> tuple[list[DomainText], list[DomainText]]:
    """The first part of every text, and the rest of it."""
    cuts = [int(TRAINED_SHARE * len(text.text)) for text in texts]
    pairs = list(zip(texts, cuts, strict=True))
    return (
        [DomainText(text.name, text.text[:cut]) for text, cut in pairs],
        [DomainText(text.name, text.text[cut:]) for text, cut in pairs],
    )


def speed(full: Engine, lessened: Engine, turns: int) -> tuple[float, float, float]:
    """Decoded tokens a second, of the full and, by the median ratio of pairs, of the lessened model.

    And the mean share of multiply-adds that the latter left out.
    """
    rates: list[tuple[float, float]] = []
    saved = []
    work = Work.of(lessened.info)
    for turn in range(turns + 1):
        # The first turn is one prompt, uncounted: pages become warm.
        for number, prompt in enumerate(PROMPTS if turn else PROMPTS[:1]):
            arms = ((full, "exact"), (lessened, "aggressive"))
            pair = {}
            for engine, compute in arms if (turn + number) % 2 else arms[::-1]:
                answer = engine.generate(
                    [{"role": "user", "content": prompt}], max_tokens=DECODED_TOKENS, compute=compute
                )
                decoded = answer.usage.output_tokens - 1
                pair[compute] = 1000 * decoded / answer.timings.decode_ms if decoded > 0 else 0.0
                if turn and engine is lessened:
                    saved.append(work.saved_share(answer.usage))
            if turn and all(pair.values()):
                rates.append((pair["exact"], pair["aggressive"]))
    # Of pairs, as the machine is not equally fast all the time.
    ratio = statistics.median(aggressive / exact for exact, aggressive in rates)
    exact = statistics.median(exact for exact, _ in rates)
    return exact, exact * ratio, statistics.mean(saved)


async def read_again(full: Engine, lessened: Engine, domains: Sequence[Domain]) -> list[Seen]:
    """At how many places of the lessened model's answers, their ends included, the full one differs."""
    found = []
    for domain in domains:
        rows = differing = 0
        for ids in domain.windows:
            answer = await lessened.complete_async(ids, max_tokens=ANSWER_TOKENS, compute="aggressive")
            chosen = [*answer.token_ids, *([STOP] if answer.finish_reason == "stop" else [])]
            theirs = await first_choices(full, ids, chosen, {"temperature": 0.0})
            rows += len(chosen)
            differing += sum(one != other for one, other in zip(chosen, theirs, strict=True))
        found.append(Seen(domain.name, rows, differing))
    return found
