"""`zlrs profile`: what every part of a model does, as JSON and as a heat map."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from zlrs import _core
from zlrs.cli.output import note
from zlrs.cli.parser import Parser
from zlrs.progress import StepProgress
from zlrs.streams import reraise

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from zlrs.profile import Domain

EPILOG = """\
examples:
  zlrs profile smollm2-135m-instruct-q4_1
  zlrs profile ./model.gguf --data prose.txt code.py --out profile

Writes OUT.json and OUT.html. Every file of --data is a domain named after it; without --data the short
built-in texts are used. With --heads every query head is ablated too, which takes many times as long.
"""


def add_data_options(parser: Parser) -> None:
    """The options that say what is measured on; `zlrs mask build` has the same."""
    add = parser.add_argument
    add("model", help="name from `zlrs models list`, path or URL of a GGUF file")
    add("--data", nargs="+", type=Path, default=[], metavar="PATH", help="texts, one domain a file")
    add("--window-tokens", type=int, default=128, metavar="N", help="tokens of a window of text (128)")
    add("--windows", type=int, default=8, metavar="N", help="windows of each domain (8)")
    add("--every", type=int, default=4, metavar="N", help="compare logits after every so many tokens (4)")
    add("--threads", type=int, metavar="N", help="worker threads (the cores this process has)")


def open_meter(options: argparse.Namespace) -> tuple[_core.Meter, list[Domain], bytes, str]:
    """The model, the texts in tokens, their sum, and the model's name."""
    from zlrs.models import resolve
    from zlrs.profile.domains import read_domains, read_texts, sum_of

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
    add_data_options(parser)
    parser.add_argument("--heads", action="store_true", help="ablate every query head too")
    parser.add_argument("--out", type=Path, default=Path("profile"), metavar="STEM", help="files to write")
    options = parser.parse_args(arguments)
    from zlrs.profile.heatmap import page
    from zlrs.profile.survey import survey

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
    for suffix, content in (
        (".json", msgspec.json.format(msgspec.json.encode(profile))),
        (".html", page(profile)),
    ):
        path = options.out.with_name(options.out.name + suffix)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        print(path)
    rows = sum(profile.rows.values())
    never = f"{len(profile.never_contribute)} of {len(profile.parts)} parts"
    note(f"{never} never contributed ({rows} rows compared).")
    return 0
