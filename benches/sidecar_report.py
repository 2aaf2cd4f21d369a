"""The figures of the sidecar as a table in docs/benchmarks/proxy.md, between its marks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from report import ROOT

if TYPE_CHECKING:
    from report import Figure

PAGE = ROOT / "docs" / "benchmarks" / "proxy.md"
BEGIN, END = "<!-- figures: made by make bench-proxy -->", "<!-- end of figures -->"


def table_of(figures: list[Figure]) -> str:
    """A Markdown table."""
    rows = ["| figure | value | beside | ratio | target | met |", "|---|---|---|---|---|---|"]
    for one in figures:
        beside = f"{one.peer} {_number(one.peer_value)}" if one.peer_value is not None else ""
        ratio = f"{one.ratio:.2f}" if one.ratio is not None else ""
        met = {True: "yes", False: "**no**", None: ""}[one.met]
        name = f"{one.figure} ({one.note})" if one.note else one.figure
        value = f"{_number(one.value)} {one.unit}".rstrip()
        rows.append(f"| {name} | {value} | {beside} | {ratio} | {one.target} | {met} |")
    return "\n".join(rows)


def write_page(figures: list[Figure]) -> None:
    """Put the table into the page."""
    text = PAGE.read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    PAGE.write_text(f"{before}{BEGIN}\n\n{table_of(figures)}\n\n{END}{after}", encoding="utf-8")
    print(f"written: {PAGE.relative_to(ROOT)}")


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
