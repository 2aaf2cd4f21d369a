"""`zlrs drafts`: which parts a model can do without while it guesses its own tokens."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from zlrs import _core
from zlrs.cli.output import note
from zlrs.cli.parser import Parser
from zlrs.masks import save_mask
from zlrs.streams import reraise

if TYPE_CHECKING:
    from collections.abc import Sequence

EPILOG = """\
examples:
  zlrs drafts train qwen2.5-coder-0.5b-instruct-q4_k_m --out drafts.mask
  zlrs mask show drafts.mask

and in zlrs.toml:
  [self_drafting]
  mode = "auto"
  mask = "drafts.mask"

Guesses are verified by the full model: no token of an answer depends on the mask.
"""


def command(arguments: Sequence[str]) -> int:
    """Run the action."""
    parser = Parser("zlrs drafts", "Self-drafting. Actions: train.", EPILOG)
    parser.add_argument("action", choices=["train"], metavar="ACTION")
    parser.parse_args(arguments[:1])
    return _train(arguments[1:])


def _train(arguments: Sequence[str]) -> int:
    from zlrs.cli.profile import add_data_options, open_meter
    from zlrs.profile.drafts import choose

    parser = Parser("zlrs drafts train", "Search for the parts to guess without.", EPILOG)
    add_data_options(parser)
    parser.add_argument("--out", type=Path, required=True, metavar="FILE", help="the mask file to write")
    options = parser.parse_args(arguments)
    meter, domains, calibration, name = open_meter(options)
    try:
        chosen = choose(
            meter,
            domains,
            model=name,
            calibration_sha256=calibration,
            every=options.every,
            progress=note,
        )
    except _core.CoreError as error:
        reraise(error)
    save_mask(chosen.mask, options.out)
    print(options.out)
    note(
        f"A guess costs {chosen.cost:.0%} of a token's weights and is right in {chosen.agreement:.1%} of the"
        f" held-out places; {chosen.vocabulary} tokens can be guessed, {chosen.covered:.1%} of the texts'. By"
        f" that decoding is"
        f" {chosen.expected_speed:.2f} x as fast where nothing else is guessed. What it costs and brings is"
        " measured again while serving, and guessing stops where it does not pay."
    )
    return 0
