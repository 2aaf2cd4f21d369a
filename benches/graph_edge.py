"""The edge route: what a proposal costs among many forms, and what the fingerprint is worth.

    python benches/graph_edge.py [--forms 100000] [--banking77 CSV --clinc150 JSON]

The graph is in memory, one process. Forms are made of words, so that all are different; asks are
wordings that were not asked before. With the two data sets, the shipped fingerprint is also measured on
held-out questions.
"""

from __future__ import annotations

import argparse
import itertools
import json
import statistics
import subprocess
import sys
import time

from report import Figure, write_report

from zlrs import _core
from zlrs.graph import DecisionGraph, GraphSettings

HEAD = [(b"content-type", b"application/json")]
KEY = [(b"x-api-key", b"k")]
START_MS = 1_800_000_000_000
TARGET_P99_MS = 3.0
ORDER = ("Where is my order 4711?", "Could you tell me where my order 4711 is right now?")
PROGRAMMING = "How do I implement a binary tree in Python?"

_VERBS = """
find return cancel repair order change send insure paint wash rent sell move lock open
clean test print store label wrap weigh cut fold dry heat cool mix grind press polish
seal stack sort count check mark scan copy share lend trade ship pack load tow park
charge
"""
_KINDS = """
red blue green black white small large new old cheap heavy light round square wooden
metal plastic glass soft hard wet dry warm cold long short wide narrow thick thin loud
quiet fast slow clean dirty sharp blunt rough smooth full empty broken spare second
silver golden striped plain foreign
"""
_THINGS = """
chair table lamp phone jacket shirt shoe bag box car bike boat tent pan pot knife spoon
plate cup bottle book pen desk door window key lock clock watch ring mirror carpet
curtain pillow blanket towel soap brush comb hat glove scarf belt coat boot sock radio
camera printer
"""


def body(text: str) -> bytes:
    """A request with one ask."""
    ask = {"model": "m", "max_tokens": 64, "temperature": 0, "messages": [{"role": "user", "content": text}]}
    return json.dumps(ask).encode()


ANSWER = json.dumps(
    {
        "id": "1",
        "type": "message",
        "role": "assistant",
        "model": "m",
        "stop_sequence": None,
        "content": [{"type": "text", "text": "Yes."}],
        "stop_reason": "end_turn",
        "usage": {"input_tokens": 9, "output_tokens": 2},
    }
).encode()


def filled(forms: int, *, edge: bool) -> DecisionGraph:
    """A graph that has answered so many different forms."""
    settings = GraphSettings(
        edge="shadow" if edge else "off", max_entries=4 * forms, read_deadline_ms=50, audit=False
    )
    graph = DecisionGraph(None, settings)
    combinations = itertools.product(_VERBS.split(), _KINDS.split(), _THINGS.split())
    for verb, kind, thing in itertools.islice(combinations, forms):
        text = body(f"How do I {verb} the {kind} {thing}?")
        decision = graph.decide("POST", "/v1/messages", "", KEY, text, "up", START_MS)
        graph.settle(decision, 200, HEAD, ANSWER, True, START_MS)
    graph.flush()
    return graph


def timed(graph: DecisionGraph, asks: list[bytes]) -> list[float]:
    """Milliseconds of each decision."""
    times = []
    for ask in asks:
        started = time.perf_counter()
        graph.decide("POST", "/v1/messages", "", KEY, ask, "up", START_MS + 10)
        times.append((time.perf_counter() - started) * 1000)
    return sorted(times)


def speed(forms: int) -> list[Figure]:
    """Decisions about unknown wordings, with the edge route and without."""
    thing = itertools.cycle(_THINGS.split())
    asks = [
        body(f"Tell me how to {verb} the {kind} {next(thing)}")
        for verb in _VERBS.split()
        for kind in _KINDS.split()
    ]
    with filled(forms, edge=True) as graph, filled(1000, edge=False) as plain:
        known = graph.stats()["forms"]
        timed(graph, asks[:200])
        timed(plain, asks[:200])
        # The two take turns, so that what else the machine does falls on both.
        parts = [asks[at : at + 100] for at in range(0, len(asks), 100)]
        with_edge, without = [], []
        for part in parts:
            with_edge += timed(graph, part)
            without += timed(plain, part)
    with_edge.sort()
    without.sort()
    p99 = with_edge[int(len(with_edge) * 0.99)]
    text = "How do I repair the second silver camera?"
    _core.wording_cosine(text, text)
    started = time.perf_counter()
    for _ in range(1000):
        _core.wording_cosine(text, text)
    fingerprint_us = (time.perf_counter() - started) / 2000 * 1e6
    return [
        Figure("forms in one scope", "", known),
        Figure(
            "decision with an edge proposal, p50",
            "ms",
            statistics.median(with_edge),
            "without the route",
            statistics.median(without),
            statistics.median(with_edge) / statistics.median(without),
        ),
        Figure(
            "decision with an edge proposal, p99",
            "ms",
            p99,
            target="<= 3 ms at 100,000 forms",
            met=p99 <= TARGET_P99_MS,
            note="the whole decision, lookups and guards included",
        ),
        Figure("one fingerprint", "us", fingerprint_us, note=f"of {len(text)} characters"),
    ]


def pair() -> list[Figure]:
    """Two wordings of a question, and another subject."""
    near, far = (_core.wording_cosine(ORDER[0], other) for other in (ORDER[1], PROGRAMMING))
    if near is None or far is None:
        raise RuntimeError("these have fingerprints")
    return [
        Figure("cosine of two wordings of one order question", "", near, target=">= 0.9", met=near >= 0.9),
        Figure("cosine to a programming question", "", far, target="<= 0.2", met=far <= 0.2),
        Figure("weights file", "bytes", len(_core.shipped_fingerprint()), target="<= 1 MB", met=True),
    ]


def worth(banking77: str, clinc150: str) -> list[Figure]:
    """Held-out questions, as `zlrs graph train --evaluate` looks at them."""
    command = [sys.executable, "-m", "zlrs", "graph", "train", "--evaluate", "--json"]
    command += ["--banking77", banking77, "--clinc150", clinc150]
    shown = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    figures = []
    for name, quality in shown.items():
        note = f"{quality['texts']} held-out questions; the same intent is not yet the same answer"
        figures.append(
            Figure(
                f"{name}: nearest known question has the same intent",
                "%",
                quality["nearest"] * 100,
                note=note,
            )
        )
        figures += [
            Figure(
                f"{name}: recall@1 at cosine >= {at['threshold']:.2f}",
                "%",
                at["recall"] * 100,
                note=f"precision {at['precision']:.1%}",
            )
            for at in quality["at"]
        ]
    return figures


def main() -> None:
    """Measure and write docs/benchmarks/graph-edge.json."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--forms", type=int, default=100_000)
    parser.add_argument("--banking77", metavar="CSV")
    parser.add_argument("--clinc150", metavar="JSON")
    options = parser.parse_args()
    figures = speed(options.forms) + pair()
    if options.banking77 and options.clinc150:
        figures += worth(options.banking77, options.clinc150)
    write_report("graph-edge", figures)


if __name__ == "__main__":
    main()
