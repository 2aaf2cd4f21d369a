"""`zlrs exits`: train and show heads that let rows leave before the last layer."""

from __future__ import annotations

import sys
import time
from contextlib import ExitStack, closing
from pathlib import Path
from typing import TYPE_CHECKING

from zlrs import _core
from zlrs.cli.output import note
from zlrs.cli.parser import Parser
from zlrs.errors import InvalidRequestError
from zlrs.exits import load_exits, measured, report_of, save_exits
from zlrs.progress import Progress
from zlrs.streams import reraise

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from zlrs.exits import ExitReport

EPILOG = """\
examples:
  zlrs exits train smollm2-135m-instruct-q4_1 --data texts/ --out small.exits
  zlrs exits show small.exits
  zlrs serve smollm2-135m-instruct-q4_1 --exits small.exits

Every file of --data is a domain named after it. Of its windows two fifths are for fitting the heads, one
for candidates of thresholds, two are held out: what is claimed is what was seen on those. A bound of 1 % in
every domain takes at least some 1,000 held-out tokens of each. If no threshold keeps the bound the file says
so, and nothing is skipped.
"""
VERBS = "actions: train, show; `zlrs exits ACTION --help` describes one"


def command(arguments: Sequence[str]) -> int:
    """Run one of the actions."""
    actions: dict[str, Callable[[Sequence[str]], int]] = {"train": _train, "show": _show}
    parser = Parser("zlrs exits", f"Train and show exit heads. {VERBS}.", EPILOG)
    parser.add_argument("action", choices=list(actions), metavar="ACTION")
    action = parser.parse_args(arguments[:1]).action
    return actions[action](arguments[1:])


def _train(arguments: Sequence[str]) -> int:
    from zlrs.masks import load_mask
    from zlrs.models import resolve
    from zlrs.profile.domains import read_domains, read_texts, sum_of

    parser = Parser("zlrs exits train", "Train exit heads and find thresholds that keep a bound.", EPILOG)
    add = parser.add_argument
    add("model", help="name from `zlrs models list`, path or URL of a GGUF file")
    add("--data", nargs="+", type=Path, required=True, metavar="PATH", help="texts, one domain a file")
    add("--out", type=Path, required=True, metavar="FILE", help="the file to write")
    add("--bound", type=float, default=0.01, help="share of first choices that may be others (0.01)")
    add(
        "--skip-cap", nargs="+", default=["0.8"], metavar="[NAME=]X",
        help="share of rows that may leave, in one domain or in all others (0.8)",
    )  # fmt: skip
    add("--layers", type=int, nargs="+", default=[], metavar="N", help="layers to leave before (up to 4)")
    add("--window-tokens", type=int, default=256, metavar="N", help="tokens of a window of text (256)")
    add("--windows", type=int, default=20, metavar="N", help="windows of each domain (20)")
    add("--mask", type=Path, metavar="FILE", help="train for the model without the parts of a mask")
    add("--threads", type=int, metavar="N", help="worker threads (the cores this process has)")
    options = parser.parse_args(arguments)
    started = time.monotonic()
    texts = read_texts(options.data)
    caps = skip_caps(options.skip_cap, [text.name for text in texts])
    path = resolve(options.model)
    mask = None if options.mask is None else load_mask(options.mask)
    try:
        trainer = _core.ExitTrainer.load(
            path, window_tokens=options.window_tokens, threads=options.threads, mask=mask
        )
        domains = read_domains(trainer, texts, window_tokens=options.window_tokens, windows=options.windows)
        with closing(_Phases()) as phases:
            trained = trainer.train(
                [(domain.name, domain.windows, caps[domain.name]) for domain in domains],
                sum_of(texts),
                bound=options.bound,
                layers=options.layers,
                progress=phases.update,
            )
    except _core.CoreError as error:
        reraise(error)
    heads = measured(
        trained,
        model=path.stem,
        bound=options.bound,
        skip_caps=caps,
        seconds=time.monotonic() - started,
    )
    save_exits(heads, options.out)
    print(options.out)
    for line in _lines(report_of(heads)):
        note(line)
    return 0


def skip_caps(given: Sequence[str], domains: Sequence[str]) -> dict[str, float]:
    """The share of rows that may leave, by domain; the last word on a domain counts.

    Raises:
        InvalidRequestError: A share out of range, or of a domain that there is not.
    """
    caps = dict.fromkeys(domains, 0.8)
    for text in given:
        name, separator, value = text.rpartition("=")
        try:
            share = float(value)
        except ValueError:
            share = -1.0
        if not 0 < share <= 1 or (separator and name not in caps):
            allowed = f"X or NAME=X, X above 0 and at most 1, NAME one of {', '.join(caps)}"
            raise InvalidRequestError(f"skip-cap is {text!r}; allowed: {allowed}")
        caps.update(dict.fromkeys([name] if separator else domains, share))
    return caps


class _Phases:
    """A bar for each part of the training."""

    def __init__(self) -> None:
        self._what = ""
        self._last = 0
        self._bar = ExitStack()
        self._progress: Progress | None = None

    def update(self, what: str, done: int, total: int) -> None:
        """So much of a part is done."""
        if what != self._what or done < self._last or self._progress is None:
            self.close()
            self._progress = self._bar.enter_context(Progress(what, total, pieces="parts"))
            self._what = what
        self._last = done
        self._progress.update(done)

    def close(self) -> None:
        """The last part is done."""
        self._bar.close()


def _show(arguments: Sequence[str]) -> int:
    parser = Parser("zlrs exits show", "What exit heads leave out, and what was measured of them.", EPILOG)
    parser.add_argument("file", type=Path, help="a file of `zlrs exits train`")
    parser.add_argument("--json", action="store_true", help="the report as JSON")
    options = parser.parse_args(arguments)
    heads = load_exits(options.file)
    report = report_of(heads)
    if options.json:
        sys.stdout.write(heads.report + "\n")
        return 0
    print(f"weights      {heads.weights_sha256}\ncalibration  {heads.calibration_sha256}")
    for layer, threshold in heads.probes():
        leaves = "nobody leaves" if threshold is None else f"rows leave below {threshold:.3f}"
        print(f"before layer {layer} of {heads.layers}: {leaves}")
    print("\n".join(_lines(report)))
    return 0


def _lines(report: ExitReport) -> list[str]:
    """The report for people."""
    lines = [
        f"layer {fit.layer}: {fit.agreement:.1%} of {fit.rows} first choices are final there, "
        f"area under the curve {fit.area_under_curve:.3f}"
        for fit in report.fits
    ]
    for index, level in enumerate(report.levels):
        in_use = ", in use" if index == report.chosen else "" if level.keeps else ", refused"
        lines.append(f"thresholds for {level.rate:.2%} wrong among those that leave{in_use}:")
        lines += [
            f"  {domain.domain}: {domain.left / max(domain.rows, 1):.1%} of {domain.rows} rows leave "
            f"({domain.skip_cap:.0%} may), "
            f"{domain.row_layers / max(domain.rows * report.layers, 1):.2%} of layers left out, "
            f"{domain.differing / max(domain.rows, 1):.2%} other first choices (at most {domain.upper:.2%})"
            for domain in level.domains
        ]
    bound = f"{report.bound:.2%} other first choices in every domain, {report.confidence:.0%} confidence"
    if report.chosen is None:
        lines.append(f"no threshold keeps the bound ({bound}): nothing is skipped")
    else:
        lines.append(f"{report.saving():.2%} of layers are left out within the bound ({bound})")
    lines.append(f"trained in {report.seconds:.0f} s")
    return lines
