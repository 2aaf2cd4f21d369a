"""`zlrs build-info`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from zlrs import _core
from zlrs.cli.parser import Parser

if TYPE_CHECKING:
    from collections.abc import Sequence


def command(arguments: Sequence[str]) -> int:
    """Print the facts of this build."""
    parser = Parser(
        "zlrs build-info", "Print what this build is: version, profile, instruction set, revision."
    )
    parser.add_argument("--json", action="store_true", help="as JSON")
    options = parser.parse_args(arguments)
    facts = _core.build_info()
    if options.json:
        print(json.dumps(facts, indent=2))
    else:
        width = max(len(name) for name in facts)
        for name, value in facts.items():
            print(f"{name:<{width}}  {value}")
    return 0
