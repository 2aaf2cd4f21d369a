"""`zlrs profile`: what every part of a model does, as JSON and as a heat map."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from zlrs import _core
from zlrs.cli.output import note
from zlrs.cli.parser import Parser
from zlrs.errors import InvalidRequestError
from zlrs.progress import StepProgress
from zlrs.streams import reraise

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from zlrs.profile import Domain

EPILOG = """\
examples:
  zlrs profile smollm2-135m-instruct-q4_1
  zlrs profile ./model.gguf --data prose.txt code.py --out profile --png
  zlrs profile prompts.jsonl --model smollm2-135m-instruct-q4_1 --mask small.mask

Of a model: writes OUT.json and OUT.html (with --png OUT.png). Every file of --data is a domain named after
it; without --data the short built-in texts are used. With --heads every query head is ablated too, which
takes many times as long.
Of a file of prompts (.txt: one a line; .jsonl: `prompt` of each object): what each prompt needs of the model,
with advice, to OUT.json and, in short, to standard output.
"""


PROMPT_SUFFIXES = (".txt", ".jsonl")


def add_data_options(parser: Parser, *, target: bool = True) -> None:
    """The options that say what is measured on; `zlrs mask build` has the same."""
    add = parser.add_argument
    if target:
        add("model", help="name from `zlrs models list`, path or URL of a GGUF file")
    add("--data", nargs="+", type=Path, default=[], metavar="PATH", help="texts, one domain a file")
    add("--window-tokens", type=int, default=128, metavar="N", help="tokens of a window of text (128)")
    add("--windows", type=int, default=8, metavar="N", help="windows of each domain (8)")
    add(
        "--every",
        type=int,
        default=4,
        metavar="N",
        help="compare logits after every so many tokens and the last (4)",
    )
    add("--threads", type=int, metavar="N", help="worker threads (the cores this process has)")


def check_data_options(options: argparse.Namespace) -> None:
    """Refuse sizes with which nothing would be measured, before anything is loaded.

    Raises:
        InvalidRequestError: One is too small.
    """
    least = {"--window-tokens": 2, "--windows": 2, "--every": 1}
    for name, value in zip(least, (options.window_tokens, options.windows, options.every), strict=True):
        if value < least[name]:
            raise InvalidRequestError(f"{name} is {value}; at least {least[name]} is needed")


def open_meter(options: argparse.Namespace) -> tuple[_core.Meter, list[Domain], bytes, str]:
    """The model, the texts in tokens, their sum, and the model's name."""
    from zlrs.models import resolve
    from zlrs.profile.domains import read_domains, read_texts, sum_of

    check_data_options(options)
    texts = read_texts(options.data)
    path = resolve(options.model)
    try:
        meter = _core.Meter.load(path, window_tokens=options.window_tokens, threads=options.threads)
    except _core.CoreError as error:
        reraise(error)
    domains = read_domains(meter, texts, window_tokens=options.window_tokens, windows=options.windows)
    return meter, domains, sum_of(texts), path.stem


def command(arguments: Sequence[str]) -> int:
    """Profile a model; the paths of the files go to standard output."""
    parser = Parser("zlrs profile", "Measure what every part of a model does.", EPILOG)
    add = parser.add_argument
    add(
        "target",
        metavar="MODEL|PROMPTS",
        help="a model (name, path or URL of a GGUF file) or a file of prompts",
    )
    add_data_options(parser, target=False)
    add("--heads", action="store_true", help="ablate every query head too")
    add("--png", action="store_true", help='the heat map as a picture too (needs `pip install "zlrs[png]"`)')
    add("--model", metavar="NAME", help="of prompts: the model they are for")
    add("--mask", type=Path, metavar="FILE", help="of prompts: a mask to measure on each")
    add("--out", type=Path, default=Path("profile"), metavar="STEM", help="files to write")
    options = parser.parse_args(arguments)
    if options.target.endswith(PROMPT_SUFFIXES):
        return _prompts(options)
    options.model = options.target
    from zlrs.profile.heatmap import page
    from zlrs.profile.picture import png, require_pillow
    from zlrs.profile.survey import survey

    if options.png:
        require_pillow()
    meter, domains, calibration, name = open_meter(options)
    bar = StepProgress("profile")
    kinds = ("layer", "attention", "mlp", "group", *(("head",) if options.heads else ()))
    try:
        profile = survey(
            meter,
            domains,
            model=name,
            calibration_sha256=calibration.hex(),
            every=options.every,
            ablate=kinds,
            progress=lambda done, total: bar.update("parts", done, total),
        )
    except _core.CoreError as error:
        reraise(error)
    _write(options.out, ".json", msgspec.json.format(msgspec.json.encode(profile)))
    _write(options.out, ".html", page(profile).encode())
    if options.png:
        _write(options.out, ".png", png(profile))
    rows = sum(profile.rows.values())
    never = f"{len(profile.never_contribute)} of {len(profile.parts)} parts"
    note(f"{never} never contributed ({rows} rows compared).")
    return 0


def _prompts(options: argparse.Namespace) -> int:
    """Profile a prompt library."""
    from zlrs.masks import load_mask
    from zlrs.models import resolve
    from zlrs.profile.prompts import profile_prompts
    from zlrs.verify.prompts import read_prompts

    check_data_options(options)
    if options.model is None:
        raise InvalidRequestError(
            "the model of the prompts is not named", suggestion="Give --model NAME (`zlrs models list`)"
        )
    prompts = read_prompts(Path(options.target))
    mask = None if options.mask is None else load_mask(options.mask)
    path = resolve(options.model)
    try:
        meter = _core.Meter.load(path, window_tokens=options.window_tokens, threads=options.threads)
        profile = profile_prompts(
            meter,
            prompts,
            model=path.stem,
            window_tokens=options.window_tokens,
            every=options.every,
            mask=mask,
            progress=StepProgress("profile").update,
        )
    except _core.CoreError as error:
        reraise(error)
    _write(options.out, ".json", msgspec.json.format(msgspec.json.encode(profile)))
    for number, entry in enumerate(profile.prompts, start=1):
        strongest = ", ".join(f"{part.part} {part.kl:.3f}" for part in entry.strongest[:3])
        mask_kl = "" if entry.mask_kl is None else f", with the mask {entry.mask_kl:.4f} nats"
        print(f"{number}. needs {entry.needed} of {len(profile.parts)} parts ({strongest}){mask_kl}")
        for line in entry.advice:
            print(f"   {line}")
    for line in profile.advice:
        note(line)
    return 0


def _write(stem: Path, suffix: str, content: bytes) -> None:
    path = stem.with_name(stem.name + suffix)
    path.write_bytes(content)
    print(path)
