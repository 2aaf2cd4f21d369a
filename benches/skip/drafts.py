"""Self-drafting beside plain decoding and lookup drafting, by category; the tokens must be the same."""

from __future__ import annotations

import contextlib
import statistics
import time
from typing import TYPE_CHECKING, Any

from report import Figure
from serve.prompts import CATEGORIES

from zlrs import Engine, _core
from zlrs.masks import save_mask
from zlrs.models import resolve
from zlrs.profile import read_domains
from zlrs.profile.domains import sum_of
from zlrs.profile.drafts import choose
from zlrs.types import Message

if TYPE_CHECKING:
    from skip.setting import Setting
    from zlrs.results import Completion

WINDOW_TOKENS = 128
WINDOWS = 4
EVERY = 4
TRAIN_LIMIT_MIN = 15
MAX_TOKENS = 96
CONTEXT_TOKENS = 1536
LEAST = 0.98
ARMS: dict[str, dict[str, Any]] = {
    "plain": {"drafting": "off"},
    "lookup": {"drafting": "auto"},
    "itself": {"drafting": "off", "self_drafting": "auto"},
    "both": {"drafting": "auto", "self_drafting": "auto"},
    "itself, always": {"drafting": "off", "self_drafting": "always"},
}
"""What guesses: nothing, a look at earlier text, the model itself, first the one then the other; and the
model itself whether it pays or not."""


def measure(setting: Setting) -> list[Figure]:
    """Find the parts to guess without, then answer every prompt with every arm, in turns."""
    meter = _core.Meter.load(resolve(setting.model), window_tokens=WINDOW_TOKENS, threads=setting.threads)
    domains = read_domains(meter, setting.texts, window_tokens=WINDOW_TOKENS, windows=WINDOWS)
    started = time.perf_counter()
    chosen = choose(
        meter, domains, model=setting.model, calibration_sha256=sum_of(setting.texts), every=EVERY,
        progress=lambda line: print(f"  {line}", flush=True),
    )  # fmt: skip
    minutes = (time.perf_counter() - started) / 60
    del meter
    mask = setting.folder / "drafts.mask"
    save_mask(chosen.mask, mask)
    out = sum(attention + mlp for attention, mlp, *_ in chosen.mask.layers())
    note = (
        f"{out} blocks left out; a guess reads {chosen.cost:.0%} of a token's weights; without them, and of"
        f" all tokens, the first choice is the same in {chosen.agreement:.1%} of held-out places;"
        f" {chosen.vocabulary} tokens can be guessed,"
        f" {chosen.covered:.1%} of the texts'; expected by bytes {chosen.expected_speed:.2f} x"
    )
    target = f"<= {TRAIN_LIMIT_MIN} min"
    return [
        Figure("drafts: train", "min", minutes, "", None, None, target, minutes <= TRAIN_LIMIT_MIN, note),
        *_by_category(setting, str(mask)),
    ]


def _decode_s(done: Completion) -> float:
    """Per token after the first."""
    return done.timings.decode_ms / 1000 / max(1, done.usage.output_tokens - 1)


def _asked(prompt: str, *, speaks: bool) -> str | list[Message]:
    """A turn, or the text itself for a model without a chat template."""
    return [Message("user", prompt)] if speaks else prompt


def _by_category(setting: Setting, mask: str) -> list[Figure]:
    taken: dict[tuple[str, str], list[float]] = {}
    guesses: dict[tuple[str, str], list[int]] = {}
    with contextlib.ExitStack() as stack:
        engines = {
            arm: stack.enter_context(
                Engine.load(
                    setting.model, threads=setting.threads, context_tokens=CONTEXT_TOKENS, progress=False,
                    **options, **({"draft_mask": mask} if "self_drafting" in options else {}),
                )
            )
            for arm, options in ARMS.items()
        }  # fmt: skip
        speaks = bool(engines["plain"].info["has_chat_template"])
        for engine in engines.values():  # costs of steps are learned here, and pages become warm
            engine.generate(_asked(CATEGORIES["edit"][0], speaks=speaks), max_tokens=MAX_TOKENS)
        for turn in range(setting.rounds):
            for name, prompts in CATEGORIES.items():
                print(f"  round {turn + 1} of {setting.rounds}: {name}", flush=True)
                for index, prompt in enumerate(prompts):
                    tenant = f"{turn}-{name}-{index}".encode().ljust(32, b"-")
                    arms = list(engines)
                    arms = arms[turn % len(arms) :] + arms[: turn % len(arms)]
                    asked = _asked(prompt, speaks=speaks)
                    answers = {
                        arm: engines[arm].generate(asked, max_tokens=MAX_TOKENS, tenant=tenant)
                        for arm in arms
                    }
                    plain = answers["plain"]
                    if any(answer.token_ids != plain.token_ids for answer in answers.values()):
                        raise RuntimeError(f"a guess changed an answer: {name} {index}")
                    for arm, answer in answers.items():
                        if answer.usage.output_tokens > 1:
                            taken.setdefault((arm, name), []).append(_decode_s(answer))
                            counts = guesses.setdefault((arm, name), [0, 0])
                            counts[0] += answer.usage.accepted_tokens
                            counts[1] += answer.usage.drafted_tokens
    return [_figure(arm, peer, name, taken, guesses) for arm, peer in PAIRS for name in CATEGORIES]


PAIRS = (("itself", "plain"), ("both", "lookup"), ("itself, always", "plain"))


def _figure(
    arm: str,
    peer: str,
    name: str,
    taken: dict[tuple[str, str], list[float]],
    guesses: dict[tuple[str, str], list[int]],
) -> Figure:
    pairs = zip(taken[peer, name], taken[arm, name], strict=True)
    ratio = statistics.median(before / after for before, after in pairs)
    speed = 1 / statistics.median(taken[arm, name])
    accepted, drafted = guesses[arm, name]
    target, met = (f">= {LEAST} x", ratio >= LEAST) if arm != "itself, always" else ("", None)
    return Figure(
        f"drafts: {arm}, {name}", "tok/s", speed, peer, speed / ratio, ratio, target, met,
        note=f"{accepted} of {drafted} guesses right, tokens equal",
    )  # fmt: skip
