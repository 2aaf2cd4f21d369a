"""The page for people: targets with what was measured, then every figure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from report import ROOT

if TYPE_CHECKING:
    from report import Figure

# What is claimed, the figures that stand for it, and where it is measured if not here.
ROWS: tuple[tuple[str, str, str], ...] = (
    (
        "wrong per hit, same and canonical, strict preset: 0 in >= 3,232",
        "wrong per hit, same and canonical, strict",
        "",
    ),
    ("hit rate after warm-up >= 0.95 of an oracle's, strict", "strict, 0.1 %: hits after warm-up", ""),
    ("the same, trial preset", "trial, 1 %: hits after warm-up", ""),
    ("spared upstream calls 45 to 65 %", "strict, 0.1 %: spared upstream calls", ""),
    ("a same decision <= 50 us p50, 100k entries", "decide, same, hit, again, p50, 100k", ""),
    ("a same decision <= 200 us p99, 100k entries", "decide, same, hit, again, p99, 100k", ""),
    ("the first since opening, p50", "decide, same, hit, first since opening, p50, 100k", ""),
    ("the first since opening, p99", "decide, same, hit, first since opening, p99, 100k", ""),
    ("a canonical decision <= 150 us p50, 100k entries", "decide, canonical, compared again, p50, 100k", ""),
    ("the first since opening, p50", "decide, canonical, compared, first since opening, p50, 100k", ""),
    ("a hit >= 27 times faster than an answer of the 0.5B engine", "a hit beside a whole answer", ""),
    ("edges at 1 %: comparisons of the run, the last ones of edges", "trial, with edges: trials", ""),
    ("a fill <= 1.17 of a plain miss", "a fill / a plain miss", ""),
    (
        "stale run: median <= 3 wrong serves per stale answer",
        "trial, 3 % go stale midway: wrong serves",
        "",
    ),
    ("stale run: gone within an hour", "trial, 3 % go stale midway: longest", ""),
    ("generated flips met: 0 of >= 5,000", "generated flips", ""),
    ("questions of different intents that are one: 0", "questions of different intents", ""),
    ("memory <= 40 bytes an entry", "resident memory per entry", ""),
    ("verify >= 100,000 entries a second", "verify, entries", ""),
    ("verify >= 100,000 audit records a second", "verify, audit records", ""),
    ("two processes on one store", "two processes", ""),
    ("GPTCache, wrong per hit", "gptcache: wrong per hit", ""),
    ("cachellm, wrong per hit", "cachellm: wrong per hit", ""),
    (
        "isolation: 0 cross hits, 0 of 10,000 crafted entries",
        "",
        "`cargo test --release -p zlrs-store --test isolation`",
    ),
    ("comparator: wrong agreement <= 0.1 %", "", "`cargo test --release -p zlrs-text --test comparator`"),
    (
        "an edge's proposal at 100,000 forms <= 3 ms p99",
        "",
        "`benches/graph_edge.py`: [graph-edge.json](graph-edge.json)",
    ),
    ("65,536 bit flips found or harmless", "", "`make conformance`"),
    ("kill -9 at every write", "", "`cargo test --release -p zlrs-store --test kill`"),
    (
        "500 identical misses: 1 upstream call",
        "",
        "`pytest tests/e2e/test_sidecar_graph.py -k five_hundred`",
    ),
)


INTRODUCTION = """# The decision graph

Made by `make bench-graph`; [graph.json](graph.json) has commit, machine and every figure.
Parts may be measured one by one; the commit is that of the last.

The traffic is simulated: a request each half second, questions after Zipf's law with exponent 1.0 over 4,000
questions of 14 families with order numbers, names and a customer's tier, each in one of some wordings. The
upstream answers from a table, rewords 5 % of its answers, cuts 0.5 % off and fails at 0.2 %; the truth of its
answers is known. Most questions are rare and asked less than once an hour. An oracle with the same routes
serves whatever was asked before in this wording, or has been answered twice in this form.

The peers run in their default set-up with real all-MiniLM-L6-v2 vectors (GPTCache's own default model cannot
be had without its hub). They are given the text, as they key on it; what lies beside it they do not ask for.
"""


def targets(figures: list[Figure]) -> str:
    """The table of targets, as Markdown."""
    lines = ["| target | measured | | note |", "|---|---|---|---|"]
    for claim, prefix, elsewhere in ROWS:
        if elsewhere:
            lines.append(f"| {claim} | by {elsewhere} | | |")
            continue
        for figure in figures:
            if figure.figure.startswith(prefix):
                met = {True: "met", False: "**missed**", None: ""}[figure.met]
                lines.append(f"| {claim} | {_number(figure)} | {met} | {figure.note} |")
                break
        else:
            lines.append(f"| {claim} | not measured | | |")
    return "\n".join(lines)


def _number(figure: Figure) -> str:
    return (
        f"{figure.value:.4g} {figure.unit}" if figure.value < 1000 else f"{figure.value:,.0f} {figure.unit}"
    )


def write_page(figures: list[Figure], table: str) -> None:
    """docs/benchmarks/graph.md."""
    head = "| figure | value | target | note |\n|---|---|---|---|\n"
    page = f"{INTRODUCTION}\n## Targets\n\n{table}\n\n## Figures\n\n{head}"
    rows = [
        f"| {figure.figure} | {_number(figure)} | {figure.target} | {figure.note} |" for figure in figures
    ]
    path = ROOT / "docs" / "benchmarks" / "graph.md"
    path.write_text(page + "\n".join(rows) + "\n", encoding="utf-8")
    print(f"written: {path.relative_to(ROOT)}")
