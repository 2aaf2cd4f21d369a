"""`zlrs neurons`: find and show thresholds under which neurons count for nothing."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from zlrs import _core
from zlrs.cli.output import note
from zlrs.cli.parser import Parser
from zlrs.errors import InvalidRequestError
from zlrs.neurons import load_neurons, report_of, save_neurons
from zlrs.streams import reraise

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

EPILOG = """\
examples:
  zlrs neurons train smollm2-135m-instruct-q4_1 --data texts/ --out small.neurons
  zlrs neurons train smollm2-135m-instruct-q4_1 --data texts/ --mask small.mask --out masked.neurons
  zlrs neurons show small.neurons
  zlrs serve smollm2-135m-instruct-q4_1 --neurons small.neurons

Thresholds come from every second window of text; what is claimed is what was seen on the others. If no
share of neurons keeps the bound the file says so, and nothing is left out.
"""
VERBS = "actions: train, show; `zlrs neurons ACTION --help` describes one"


def command(arguments: Sequence[str]) -> int:
    """Run one of the actions."""
    actions: dict[str, Callable[[Sequence[str]], int]] = {"train": _train, "show": _show}
    parser = Parser("zlrs neurons", f"Leave neurons out of aggressive rows. {VERBS}.", EPILOG)
    parser.add_argument("action", choices=list(actions), metavar="ACTION")
    action = parser.parse_args(arguments[:1]).action
    return actions[action](arguments[1:])


def _train(arguments: Sequence[str]) -> int:
    from zlrs.cli.profile import add_data_options, open_meter
    from zlrs.masks import load_mask
    from zlrs.profile.neurons import choose, levels

    parser = Parser("zlrs neurons train", "Find thresholds that keep a bound.", EPILOG)
    add_data_options(parser)
    parser.set_defaults(every=1)
    parser.add_argument(
        "--bound", type=float, default=0.01, help="share of first choices that may be others (0.01)"
    )
    parser.add_argument(
        "--mask", type=Path, metavar="FILE", help="train for the model without the parts of a mask"
    )
    parser.add_argument("--out", type=Path, required=True, metavar="FILE", help="the file to write")
    options = parser.parse_args(arguments)
    if not 0 < options.bound < 1:
        raise InvalidRequestError(f"--bound is {options.bound}; allowed: above 0, below 1")
    mask = None if options.mask is None else load_mask(options.mask)
    meter, domains, calibration, name = open_meter(options)
    try:
        neurons = choose(
            levels(meter, domains, every=options.every, mask=mask, progress=note),
            model=name,
            weights_sha256=bytes.fromhex(meter.empty_mask().weights_sha256),
            calibration_sha256=calibration,
            bound=options.bound,
            mask=mask,
        )
    except _core.CoreError as error:
        reraise(error)
    save_neurons(neurons, options.out)
    print(options.out)
    for line in _lines(neurons):
        note(line)
    return 0


def _show(arguments: Sequence[str]) -> int:
    parser = Parser("zlrs neurons show", "What was measured of thresholds.")
    parser.add_argument("file", type=Path)
    options = parser.parse_args(arguments)
    neurons = load_neurons(options.file)
    print(f"weights      {neurons.weights_sha256}\ncalibration  {neurons.calibration_sha256}")
    print(f"mask         {neurons.mask_sum or 'none'}")
    print("\n".join(_lines(neurons)))
    return 0


def _lines(neurons: _core.Neurons) -> list[str]:
    report = report_of(neurons)
    reach = report.reach
    kept = f"{reach.neurons:.1%} of the neurons count for nothing"
    if not report.share:
        kept = f"no share keeps the bound of {report.bound:.2%}: nothing is left out; of the smallest, {kept}"
    where = (
        f"{reach.strips:.2%} of the rows of the up projections ({reach.sorted_strips:.2%} if they were"
        f" sorted); of the columns of the down projections {reach.blocks_of_32:.2%} in blocks of 32 and"
        f" {reach.blocks_of_256:.2%} in blocks of 256"
    )
    return [
        kept,
        *(
            f"{harm.domain}: other first choice {harm.top1_disagreement:.2%} (up to {harm.top1_upper:.2%}),"
            f" divergence {harm.kl_mean:.5f} (up to {harm.kl_upper:.5f}), perplexity x"
            f" {harm.perplexity_ratio:.4f}, {harm.rows} rows held out"
            for harm in report.held_out
        ),
        f"of them where it saves work: {where}",
        f"weights not read for a token: {report.up_bytes_saved:.2%}",
    ]
