"""`zlrs mask`: make, show, check, re-tie and compare masks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from zlrs import _core
from zlrs.cli.output import note
from zlrs.cli.parser import Parser
from zlrs.errors import ConfigurationError, InvalidRequestError, ZeroLayerMismatchError
from zlrs.masks import load_mask, save_mask
from zlrs.progress import StepProgress
from zlrs.streams import reraise

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Sequence

    from zlrs.profile import DomainHarm
    from zlrs.profile.speed import Speeds
    from zlrs.profile.spot import SpotCheck, Task

EPILOG = """\
examples:
  zlrs mask build smollm2-135m-instruct-q4_1 --budget kl=0.01 --out small.mask
  zlrs mask show small.mask
  zlrs mask verify small.mask smollm2-135m-instruct-q4_1
  zlrs serve smollm2-135m-instruct-q4_1 --mask small.mask
"""

CHECKS_LIMIT = 200
CHECK_CONTEXT_TOKENS = 1024
CHECK_KV_BYTES = 1 << 30
"""Room for the checks, which are decoded together; memory is taken as it is used."""
SPEED_DIGITS = 2

VERBS = """actions: build, show, verify, rehash, diff; `zlrs mask ACTION --help` describes one"""


def command(arguments: Sequence[str]) -> int:
    """Run one of the actions."""
    actions: dict[str, Callable[[Sequence[str]], int]] = {
        "build": _build,
        "show": _show,
        "verify": _verify,
        "rehash": _rehash,
        "diff": _diff,
    }
    parser = Parser("zlrs mask", f"Make and check masks. {VERBS}.", EPILOG)
    parser.add_argument("action", choices=list(actions), metavar="ACTION")
    action = parser.parse_args(arguments[:1]).action
    return actions[action](arguments[1:])


def _build(arguments: Sequence[str]) -> int:
    from zlrs.cli.profile import add_data_options, open_meter
    from zlrs.profile import Budget, build

    parser = Parser("zlrs mask build", "Search for parts that can be left out under a budget.", EPILOG)
    add_data_options(parser)
    parser.add_argument(
        "--budget", default="kl=0.01", help="mean divergence in nats that no domain may exceed (kl=0.01)"
    )
    parser.add_argument("--blocks", action="store_true", help="do not try single query heads (quicker)")
    parser.add_argument(
        "--rejections", type=int, default=12, metavar="N", help="stop after N refused parts (12)"
    )
    parser.add_argument(
        "--checks", type=int, default=20, metavar="N", help="tasks of each spot check, 0 … 200 (20)"
    )
    parser.add_argument("--gsm8k", type=Path, metavar="FILE", help="problems of GSM8K as a spot check")
    parser.add_argument("--out", type=Path, required=True, metavar="FILE", help="the mask file to write")
    options = parser.parse_args(arguments)
    if not 0 <= options.checks <= CHECKS_LIMIT:
        raise InvalidRequestError(f"--checks is {options.checks}; allowed: 0 to {CHECKS_LIMIT}")
    tasks = _tasks(options)
    kinds = tuple(kind for kind in Budget(0).kinds if kind != "head" or not options.blocks)
    budget = Budget(_budget(options.budget), options.rejections, kinds)
    meter, domains, calibration, name = open_meter(options)
    try:
        built = build(
            meter,
            domains,
            model=name,
            calibration_sha256=calibration,
            budget=budget,
            every=options.every,
            progress=StepProgress("search").update,
        )
    except _core.CoreError as error:
        reraise(error)
    mask = built.mask
    save_mask(mask, options.out)
    if built.report.parts and tasks:
        # The weights of the search make room for those of the checks.
        del meter
        checks, speeds = _spot_checks(options, tasks)
        gain = msgspec.structs.replace(
            built.report.gain,
            tokens_s=round(speeds.masked, SPEED_DIGITS),
            tokens_s_full=round(speeds.full, SPEED_DIGITS),
        )
        report = msgspec.structs.replace(built.report, spot_checks=checks, gain=gain)
        mask = mask.measured(msgspec.json.encode(report).decode(), calibration)
        save_mask(mask, options.out)
    print(options.out)
    for line in _report_lines(mask):
        note(line)
    return 0


def _tasks(options: argparse.Namespace) -> list[tuple[str, list[Task], int]]:
    """Name, tasks and longest answer of every spot check; files are read before the long search."""
    from zlrs.profile import spot

    if not options.checks:
        return []
    found = [("json", spot.json_tasks(options.checks), spot.JSON_TOKENS)]
    if options.gsm8k is not None:
        found.append(("gsm8k", spot.gsm8k_tasks(options.gsm8k, options.checks), spot.GSM8K_TOKENS))
    return found


def _spot_checks(
    options: argparse.Namespace, tasks: Sequence[tuple[str, list[Task], int]]
) -> tuple[list[SpotCheck], Speeds]:
    """Let the full and the masked model solve them, and decode in turns."""
    from zlrs.engine import Engine
    from zlrs.profile.speed import decoding_speeds
    from zlrs.profile.spot import check

    note(f"spot checks: {', '.join(f'{len(some)} of {name}' for name, some, _ in tasks)}")
    load = {"threads": options.threads, "context_tokens": CHECK_CONTEXT_TOKENS, "progress": False}
    load["kv_bytes"] = CHECK_KV_BYTES
    load["queue_limit"] = CHECKS_LIMIT
    load["drafting"] = "off"  # answers are the same; speeds would be those of guessing
    with (
        Engine.load(options.model, **load) as full,
        Engine.load(options.model, mask=options.out, **load) as masked,
    ):
        speeds = decoding_speeds(full, masked)
        return [check(full, masked, name, some, tokens) for name, some, tokens in tasks], speeds


def _budget(text: str) -> float:
    name, _, value = text.partition("=")
    try:
        number = float(value)
    except ValueError:
        number = -1.0
    if name != "kl" or not 0 < number < 100:  # noqa: PLR2004 - in nats; more says nothing
        raise InvalidRequestError(f"the budget is {text!r}; allowed: kl=X, X above 0 and below 100 nats")
    return number


def _show(arguments: Sequence[str]) -> int:
    from zlrs.profile import report_of

    parser = Parser("zlrs mask show", "What a mask leaves out, and what was measured of it.")
    parser.add_argument("file", type=Path)
    parser.add_argument("--json", action="store_true", help="as JSON")
    parser.add_argument("--card", action="store_true", help="as an entry of a model-card.yaml")
    options = parser.parse_args(arguments)
    mask = load_mask(options.file)
    report_of(mask)  # a file may say anything
    if options.card:
        print("\n".join(_card(mask)))
    elif options.json:
        facts = {"weights_sha256": mask.weights_sha256, "calibration_sha256": mask.calibration_sha256}
        print(json.dumps({**facts, "left_out": _left_out(mask), "report": json.loads(mask.report)}, indent=1))
    else:
        print(f"weights      {mask.weights_sha256}\ncalibration  {mask.calibration_sha256}")
        print("\n".join([*_left_out(mask), *_report_lines(mask)]))
    return 0


def _verify(arguments: Sequence[str]) -> int:
    options = _file_and_model("verify", "Check that a mask fits a model file, by loading it.", arguments)
    from zlrs.engine import Engine

    with Engine.load(options.model, mask=options.file, context_tokens=64, progress=False) as engine:
        weights = int(engine.info["weight_bytes"])
    note(f"The mask fits; {weights} bytes of weights are loaded with it.")
    return 0


def _rehash(arguments: Sequence[str]) -> int:
    options = _file_and_model("rehash", "Tie a mask to another file of the same shape.", arguments, out=True)
    from zlrs.models import resolve

    mask = load_mask(options.file)
    try:
        meter = _core.Meter.load(resolve(options.model), window_tokens=2)
        empty = meter.empty_mask()
        if [len(layer[2]) for layer in empty.layers()] != [len(layer[2]) for layer in mask.layers()]:
            raise ZeroLayerMismatchError("the mask and the model have other layers or heads")
        # What was measured belongs to the other weights.
        tied = mask.for_weights(bytes.fromhex(empty.weights_sha256)).measured("{}", bytes(32))
        meter.compiled(tied)
    except _core.CoreError as error:
        reraise(error)
    save_mask(tied, options.out)
    print(options.out)
    note("What was measured on the other weights was left out: measure again with `zlrs verify`.")
    return 0


def _diff(arguments: Sequence[str]) -> int:
    parser = Parser("zlrs mask diff", "What two masks leave out differently; ends with 1 if they differ.")
    parser.add_argument("first", type=Path)
    parser.add_argument("second", type=Path)
    options = parser.parse_args(arguments)
    first, second = load_mask(options.first), load_mask(options.second)
    lines = []
    if first.weights_sha256 != second.weights_sha256:
        lines.append(f"weights {first.weights_sha256} and {second.weights_sha256}")
    before, after = _left_out(first), _left_out(second)
    lines += [f"- {line}" for line in before if line not in after]
    lines += [f"+ {line}" for line in after if line not in before]
    print("\n".join(lines or ["no difference"]))
    return 1 if lines else 0


def _file_and_model(
    action: str, text: str, arguments: Sequence[str], *, out: bool = False
) -> argparse.Namespace:
    parser = Parser(f"zlrs mask {action}", text)
    parser.add_argument("file", type=Path)
    parser.add_argument("model", help="name from `zlrs models list`, path or URL of a GGUF file")
    if out:
        parser.add_argument("--out", type=Path, required=True, metavar="FILE")
    return parser.parse_args(arguments)


def _left_out(mask: _core.Mask) -> list[str]:
    """One line a part."""
    lines = []
    for index, (attention, mlp, heads, _, groups, mean_attention, mean_mlp) in enumerate(mask.layers()):
        for name, out, mean in (("attention", attention, mean_attention), ("mlp", mlp, mean_mlp)):
            if out:
                lines.append(f"layer {index}: without {name}" + (", its mean in its place" if mean else ""))
        single = [str(head) for head, out in enumerate(heads) if out]
        if single and not attention:
            whole = f" (groups {', '.join(map(str, groups))})" if groups else ""
            lines.append(f"layer {index}: without heads {', '.join(single)}{whole}")
    return lines or ["nothing is left out"]


def _report_lines(mask: _core.Mask) -> list[str]:
    from zlrs.profile import report_of

    report = report_of(mask)
    if report is None:
        return ["nothing was measured"]
    gain = report.gain
    saved = 1 - gain.token_bytes / gain.token_bytes_full
    kv_saved = 1 - gain.kv_token_bytes / gain.kv_token_bytes_full
    token = f"{gain.token_bytes} of {gain.token_bytes_full} bytes (-{saved:.2%})"
    kv = f"{gain.kv_token_bytes} of {gain.kv_token_bytes_full} bytes (-{kv_saved:.2%})"
    return [
        f"{len(report.parts)} parts left out within {report.budget_kl:g} nats, {report.steps_back} put back",
        *(_harm_line(harm) for harm in report.held_out),
        *(
            f"{check.name}: {check.masked_right} of {check.asked} solved, in full {check.full_right};"
            f" {check.same_answers} answers the same"
            for check in report.spot_checks
        ),
        f"weights read for a token: {token}; keys and values of a token: {kv}",
        *(
            [f"decoding: {gain.tokens_s:.1f} tok/s, in full {gain.tokens_s_full:.1f} tok/s"]
            if gain.tokens_s and gain.tokens_s_full
            else []
        ),
    ]


def _harm_line(harm: DomainHarm) -> str:
    return (
        f"{harm.domain}: divergence {harm.kl_mean:.5f} (up to {harm.kl_upper:.5f}, p99 {harm.kl_p99:.4f}),"
        f" other first choice {harm.top1_disagreement:.2%} (up to {harm.top1_upper:.2%}),"
        f" perplexity x {harm.perplexity_ratio:.4f}, {harm.rows} rows held out"
    )


def _card(mask: _core.Mask) -> list[str]:
    from zlrs.profile import report_of

    report = report_of(mask)
    if report is None:
        raise ConfigurationError(
            "nothing was measured of this mask", suggestion="Make it with `zlrs mask build`."
        )
    quoted, gain = json.dumps, report.gain
    return [
        "zero_layer:",
        f"  model: {quoted(report.model)}",
        f"  weights_sha256: {mask.weights_sha256}",
        f"  calibration_sha256: {mask.calibration_sha256}",
        f"  budget_kl_nats: {report.budget_kl:g}",
        f"  left_out: {quoted(report.parts)}",
        f"  token_bytes_saved: {1 - gain.token_bytes / gain.token_bytes_full:.4f}",
        f"  kv_bytes_saved: {1 - gain.kv_token_bytes / gain.kv_token_bytes_full:.4f}",
        *(
            [f"  tokens_s: {gain.tokens_s:.2f}", f"  tokens_s_full: {gain.tokens_s_full:.2f}"]
            if gain.tokens_s and gain.tokens_s_full
            else []
        ),
        "  held_out:",
        *(
            f"    - {{domain: {quoted(harm.domain)}, rows: {harm.rows}, kl_mean: {harm.kl_mean:.6f},"
            f" kl_upper: {harm.kl_upper:.6f}, kl_p99: {harm.kl_p99:.6f},"
            f" top1_disagreement: {harm.top1_disagreement:.4f}, top1_upper: {harm.top1_upper:.4f},"
            f" perplexity_ratio: {harm.perplexity_ratio:.4f}}}"
            for harm in report.held_out
        ),
        *(["  spot_checks:"] if report.spot_checks else []),
        *(
            f"    - {{name: {quoted(check.name)}, asked: {check.asked}, full_right: {check.full_right},"
            f" masked_right: {check.masked_right}, same_answers: {check.same_answers}}}"
            for check in report.spot_checks
        ),
    ]
