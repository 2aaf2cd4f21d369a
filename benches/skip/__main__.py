"""What leaving work out saves, beside what it costs.

    cd benches && ../.venv/bin/python -m skip --model NAME [--data FILE ...] [--part NAME ...] [--rounds N]

Writes docs/benchmarks/skip-NAME.json and .md. About half an hour a model with the 0.5B model on two cores;
nothing else should run. With `--part` only these parts are measured, and the other figures of the last report
are kept.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from pathlib import Path

from report import read_figures, write_report

from skip.parts import PARTS
from skip.setting import Setting, default_texts
from zlrs.profile.domains import read_texts

ABOUT = (
    "What leaving work out saves, with what it costs beside it: `make bench-skip`. Divergences are"
    " Kullback-Leibler of the lessened from the full model, in nats, on texts that no search looked at."
    " Parts may be measured one by one; the commit is that of the last."
)


def main() -> None:
    """Measure and report."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--model", required=True)
    parser.add_argument("--data", nargs="*", type=Path, default=[], help="texts, one domain a file")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--part", action="append", choices=list(PARTS), help="only this; may be repeated")
    options = parser.parse_args()
    name = f"skip-{Path(options.model).name.removesuffix('.gguf')}"
    chosen = options.part or list(PARTS)
    texts = read_texts(options.data) if options.data else default_texts()
    figures = [figure for figure in read_figures(name) if figure.figure.split(":")[0] not in chosen]
    with tempfile.TemporaryDirectory() as folder:
        setting = Setting(options.model, texts, options.threads, options.rounds, Path(folder))
        for part in chosen:
            print(f"{options.model}: {part}", flush=True)
            figures += PARTS[part](setting)
    order = list(PARTS)
    known = [figure for figure in figures if figure.figure.split(":")[0] in order]
    known.sort(key=lambda figure: order.index(figure.figure.split(":")[0]))
    write_report(name, known, about=ABOUT)


if __name__ == "__main__":
    main()
