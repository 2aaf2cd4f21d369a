"""`zlrs doctor`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from zlrs import _core
from zlrs.cli.parser import Parser

if TYPE_CHECKING:
    from collections.abc import Sequence

GIB = 1 << 30


def command(arguments: Sequence[str]) -> int:
    """Print what a model would be computed on, and why not on something better."""
    parser = Parser("zlrs doctor", "Check what this machine has for zlrs: instruction sets, a GPU, a driver.")
    parser.add_argument("--json", action="store_true", help="as JSON")
    options = parser.parse_args(arguments)
    build, gpu = _core.build_info(), _core.gpu_info()
    facts = {
        "processor": f"instruction set {build['isa']} (of {build['isa_available']})",
        "gpu": _describe(gpu),
        "device": "cuda" if gpu["found"] == "yes" else "cpu",
    }
    if options.json:
        print(json.dumps(facts | {"gpu_facts": gpu}, indent=2))
    else:
        width = max(len(name) for name in facts)
        for name, value in facts.items():
            print(f"{name:<{width}}  {value}")
    return 0


def _describe(gpu: dict[str, str]) -> str:
    if gpu["found"] != "yes":
        return f"none ({gpu['reason']})"
    memory = int(gpu["memory_bytes"]) / GIB
    return f"{gpu['name']}, compute capability {gpu['capability']}, {memory:.0f} GiB"
