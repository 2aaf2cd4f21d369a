"""`zlrs verify`: does leaving work out pay, and does it change answers?"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, cast

import msgspec

from zlrs.cli.output import note
from zlrs.cli.parser import Parser
from zlrs.errors import InvalidRequestError
from zlrs.progress import StepProgress

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from zlrs import wire
    from zlrs.verify import Answer, Verification

EPILOG = """\
examples:
  zlrs verify smollm2-135m-instruct-q4_1 --mask small.mask
  zlrs verify smollm2-135m-instruct-q4_1 --exits small.exits
  zlrs verify smollm2-135m-instruct-q4_1 --neurons small.neurons
  zlrs verify http://127.0.0.1:8080
  zlrs verify http://127.0.0.1:8080 --against http://127.0.0.1:8081 --model NAME --key-env KEY

Every prompt is asked of both in turns, greedily: a model against itself with the mask, the exit heads, the
thresholds of neurons or several of them; a URL as it is against the same URL with `X-ZLRS-Compute:
aggressive` (--header for others) or another URL. What comes out goes to standard output as JSON: status,
zombie_layers, token_saving_pct (multiply-adds not done; tokens are counted as ever), latency_improvement_ms
(median of the differences), confidence (share of bootstrap samples with an improvement). It says so where
nothing differs. docs/how-to/skip-layers.md has every field.
"""

AGGRESSIVE = "X-ZLRS-Compute: aggressive"
NO_GRAPH = {"X-ZLRS-No-Graph": "true"}
"""Answers are to be computed, not replayed."""


class Arm(Protocol):
    """One way to answer."""

    def ask(self, prompt: str) -> Answer:
        """One answer."""


def _parser() -> Parser:
    from zlrs.verify.compare import DEFAULT_REPEATS

    parser = Parser("zlrs verify", "Compare full answers with those that leave work out.", EPILOG)
    add = parser.add_argument
    add("target", metavar="MODEL|URL", help="a model (name, path or URL of a GGUF file) or an endpoint's URL")
    add("--mask", type=Path, metavar="FILE", help="of a model: the mask to compare with it")
    add(
        "--exits", type=Path, metavar="FILE", help="of a model: exit heads to compare with it, instead or too"
    )
    add("--neurons", type=Path, metavar="FILE", help="of a model: thresholds of neurons, instead or too")
    add("--against", metavar="URL", help="of a URL: another endpoint instead of another header")
    add("--header", action="append", metavar="'NAME: VALUE'", help=f"of the other one ({AGGRESSIVE!r})")
    add("--model", metavar="NAME", help="the model's name at the URL (asked of it)")
    add("--protocol", choices=["messages", "chat"], default="messages", help="of the URL (messages)")
    add("--key-env", metavar="VAR", help="variable with the URL's key")
    add("--prompts", type=Path, metavar="FILE", help="one prompt a line (.jsonl: `prompt` of each object)")
    add("--repeats", type=int, default=DEFAULT_REPEATS, metavar="N", help="pairs of answers (100)")
    add("--max-tokens", type=int, default=32, metavar="N", help="longest answer (32)")
    add("--threads", type=int, metavar="N", help="of a model: worker threads (the cores this process has)")
    return parser


def command(arguments: Sequence[str]) -> int:
    """Compare and print."""
    options = _parser().parse_args(arguments)
    for name, value in (("--repeats", options.repeats), ("--max-tokens", options.max_tokens)):
        if value < 1:
            raise InvalidRequestError(f"{name} is {value}; at least 1 is needed")
    from zlrs.verify.prompts import BUILT_IN, read_prompts

    prompts = read_prompts(options.prompts) if options.prompts else list(BUILT_IN)
    is_url = options.target.startswith(("http://", "https://")) and not options.target.endswith(".gguf")
    report = _urls(options, prompts) if is_url else _models(options, prompts)
    print(msgspec.json.format(msgspec.json.encode(report)).decode())
    _say(report)
    return 0


def _models(options: argparse.Namespace, prompts: Sequence[str]) -> Verification:
    """The full model, and one with a mask, exit heads, thresholds of neurons or several of them."""
    from zlrs.engine import Engine
    from zlrs.verify.local import EngineArm

    aggressive = options.exits is not None or options.neurons is not None
    if options.mask is None and not aggressive:
        raise InvalidRequestError(
            "what to compare the model with is not named",
            suggestion="Give --mask FILE, --exits FILE or --neurons FILE, or the URL of a running server",
        )
    loads = {"threads": options.threads, "context_tokens": None, "progress": True}
    with (
        Engine.load(options.target, **loads) as full,
        Engine.load(
            options.target, mask=options.mask, exits=options.exits, neurons=options.neurons, **loads
        ) as other,
    ):
        arms = [
            EngineArm(full, options.max_tokens),
            EngineArm(other, options.max_tokens, aggressive=aggressive, is_counted=options.neurons is None),
        ]
        return _compare(arms, prompts, options.repeats)


def _urls(options: argparse.Namespace, prompts: Sequence[str]) -> Verification:
    """An endpoint as it is, and with other headers or at another URL."""
    from zlrs.verify.remote import UrlArm

    credentials = _credentials(options.key_env, options.protocol)
    headers = dict(_header(line) for line in options.header or ([] if options.against else [AGGRESSIVE]))
    model = options.model or _first_model(options.target, credentials)
    arms = [
        UrlArm(
            url,
            model=model,
            protocol=cast("wire.Protocol", options.protocol),
            max_tokens=options.max_tokens,
            headers={**NO_GRAPH, **credentials, **own},
        )
        for url, own in ((options.target, {}), (options.against or options.target, headers))
    ]
    try:
        return _compare(arms, prompts, options.repeats)
    finally:
        for arm in arms:
            arm.close()


def _compare(arms: Sequence[Arm], prompts: Sequence[str], repeats: int) -> Verification:
    from zlrs.verify import Schedule, Tally

    schedule = list(Schedule(len(prompts), repeats))
    progress, tally = StepProgress("verify"), Tally()
    for done, turn in enumerate(schedule, start=1):
        tally.add(turn, arms[turn.arm].ask(prompts[turn.prompt]))
        progress.update("answers", done, len(schedule))
    return tally.report()


def _credentials(variable: str | None, protocol: str) -> dict[str, str]:
    if variable is None:
        return {}
    key = os.environ.get(variable)
    if not key:
        raise InvalidRequestError(f"the variable {variable} is not set")
    return {"x-api-key": key} if protocol == "messages" else {"authorization": f"Bearer {key}"}


def _header(line: str) -> tuple[str, str]:
    name, colon, value = line.partition(":")
    if not colon or not name.strip() or "\n" in line or "\r" in line:
        raise InvalidRequestError(f"the header is {line!r}; write 'NAME: VALUE'")
    return name.strip(), value.strip()


def _first_model(url: str, headers: dict[str, str]) -> str:
    """The first name that an endpoint lists."""
    from zlrs.verify.remote import first_model

    return first_model(url, headers)


def _say(report: Verification) -> None:
    sign = "faster" if report.latency_improvement_ms >= 0 else "slower"
    note(
        f"{report.status}: {abs(report.latency_improvement_ms):.2f} ms {sign} an answer in the median of"
        f" {report.repeats} pairs (confidence {report.confidence:.2f} that it is faster);"
        f" {report.identical_answers_pct:g} % of the texts are the same"
    )
    for text in report.notes:
        note(text)
