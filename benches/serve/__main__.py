"""The engine's server: reuse, many clients beside `llama-server`, drafting, branches, cancels, memory.

    cd benches && python -m serve --model NAME [--threads 2] [--rounds 2] [--clients 16] [--part NAME ...]
                                  [--endurance SECONDS]

Both servers are started on the same file with the same number of threads and take turns; while one is asked
the other is idle. Under ten minutes with the 0.5B model on two cores. Figures are medians over rounds. With
`--part` only these parts are measured, and the other figures of the last report are kept.
"""

from __future__ import annotations

import argparse
import asyncio
import os
from typing import TYPE_CHECKING

from report import Figure, read_figures, write_report

from serve import reuse, servers, traffic
from serve.drafting import drafting
from serve.typed import typed
from zlrs.models import resolve

if TYPE_CHECKING:
    from pathlib import Path

PARTS = ("reuse", "traffic", "drafting", "typing", "cancels")


def measure(part: str, path: Path, options: argparse.Namespace) -> list[Figure]:
    """The figures of one part."""
    print(part, flush=True)
    if part == "drafting":
        return drafting(path, options.threads, options.rounds)
    with servers.ours(path, options.threads) as server:
        if part == "reuse":
            figures = asyncio.run(reuse.first_token(server.url, options.rounds))
            figures += asyncio.run(reuse.second_turn(server.url, options.rounds))
            figures += asyncio.run(reuse.branches(server.url, options.rounds))
        elif part == "traffic":
            figures = traffic.beside_llama(server, path, options.threads, options.clients, options.rounds)
            figures += traffic.memory(server, path)
        elif part == "typing":
            figures = asyncio.run(typed(server.url, options.rounds))
        elif part == "cancels":
            figures = asyncio.run(traffic.cancels(server.url))
        else:
            figures = asyncio.run(traffic.endurance(server, 100, options.endurance))
    return figures


def main() -> None:
    """Measure and report."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--model", required=True)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--clients", type=int, default=16)
    parser.add_argument("--part", action="append", choices=PARTS, help="only this; may be repeated")
    parser.add_argument("--endurance", type=float, metavar="SECONDS", help="100 clients for so long, alone")
    options = parser.parse_args()
    path = resolve(options.model)
    parts = ["endurance"] if options.endurance else options.part or PARTS
    figures = [figure for part in parts for figure in measure(part, path, options)]
    if len(parts) < len(PARTS):
        names = {figure.figure for figure in figures}
        figures = [kept for kept in read_figures("serve") if kept.figure not in names] + figures
    setting = f"{path.stem}, {options.threads} threads"
    write_report("serve", figures, about=f"`make bench-serve`: {setting}.")


if __name__ == "__main__":
    main()
