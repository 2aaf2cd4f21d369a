"""The profile as a page: heat maps in plain HTML, without scripts and without anything from elsewhere."""

from __future__ import annotations

import html
import math
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from zlrs.profile.survey import PartEntry, PartProfile, Profile

STYLE = """
body{font:14px/1.5 system-ui,sans-serif;margin:2rem;color:#1c1c1c}
table{border-collapse:collapse;margin:.5rem 0 1.5rem}
td,th{padding:.15rem .4rem;text-align:right;font-variant-numeric:tabular-nums;font-weight:400}
td{border:1px solid #fff}
"""


def page(profile: Profile) -> str:
    """One page: per domain the divergence without each block, and the relative norm of each head."""
    rows = ", ".join(f"{html.escape(name)} {count}" for name, count in profile.rows.items())
    tokens = ", ".join(f"{html.escape(name)} {count}" for name, count in profile.tokens.items())
    never = ", ".join(map(html.escape, profile.never_contribute)) or "none"
    sections = [
        f"<h1>{html.escape(profile.model)}</h1>",
        f"<p>Tokens computed: {tokens}. Rows compared: {rows}.</p>",
        f"<p>Never contributed: {len(profile.never_contribute)} of {len(profile.parts)} parts ({never}).</p>",
    ]
    for domain in profile.tokens:
        sections.append(f"<h2>{html.escape(domain)}</h2>")
        sections.append(_influence(profile, domain))
        sections += [_map(profile, domain, *panel) for panel in PANELS]
    body = "\n".join(sections)
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{html.escape(profile.model)}</title>'
        f"<style>{STYLE}</style><body>{body}</body></html>\n"
    )


def _kl(part: PartProfile) -> float | None:
    return part.kl


def _relative(part: PartProfile) -> float | None:
    return part.relative_norm


def _influence(profile: Profile, domain: str) -> str:
    cells = "".join(f"<td>{entry.domains[domain]:.3f}</td>" for entry in profile.influence)
    heads = "".join(f"<th>{entry.layer}</th>" for entry in profile.influence)
    return f"<p>Block influence by layer</p><table><tr>{heads}</tr><tr>{cells}</tr></table>"


class Grid(NamedTuple):
    """Values of some kinds of parts on texts of one kind.

    Attributes:
        title: What they are.
        columns: Kind and number, from left to right.
        cells: Value by layer, kind and number; `None` or absent where there is none.
    """

    title: str
    columns: list[tuple[str, int]]
    cells: dict[tuple[int, str, int], float | None]

    def values(self) -> list[float]:
        """All there are."""
        return [cell for cell in self.cells.values() if cell is not None]


PANELS: tuple[tuple[tuple[str, ...], str, Callable[[PartProfile], float | None]], ...] = (
    (("layer", "attention", "mlp", "group"), "Divergence without the part, nats", _kl),
    (("head",), "Output norm of a head over its layer's mean", _relative),
)


def grid(
    profile: Profile,
    domain: str,
    kinds: Sequence[str],
    title: str,
    value: Callable[[PartProfile], float | None],
) -> Grid:
    """One heat map; without columns if nothing was measured."""
    columns: list[tuple[str, int]] = []
    cells: dict[tuple[int, str, int], float | None] = {}
    for part in (part for part in profile.parts if part.kind in kinds):
        if (part.kind, part.index) not in columns:
            columns.append((part.kind, part.index))
        cells[part.layer, part.kind, part.index] = value(_of(part, domain))
    columns.sort(key=lambda column: (kinds.index(column[0]), column[1]))
    found = Grid(title, columns, cells)
    return found if found.values() else Grid(title, [], {})


def shade(value: float, values: Sequence[float]) -> float:
    """The place of a value among others on a logarithmic scale, 0 … 1."""
    floor = max(max(values) * 1e-5, 1e-12)
    low, high = math.log(max(min(values), floor)), math.log(max(*values, floor))
    return 0.0 if high <= low else (math.log(max(value, floor)) - low) / (high - low)


def _map(
    profile: Profile,
    domain: str,
    kinds: Sequence[str],
    title: str,
    value: Callable[[PartProfile], float | None],
) -> str:
    found = grid(profile, domain, kinds, title, value)
    if not found.columns:
        return ""
    values, numbered = found.values(), {"group", "head"}
    head = "".join(
        f"<th>{kind}{f' {index}' if kind in numbered else ''}</th>" for kind, index in found.columns
    )
    lines = [
        f"<tr><th>{layer}</th>"
        + "".join(_cell(found.cells.get((layer, kind, index)), values) for kind, index in found.columns)
        + "</tr>"
        for layer in range(profile.layers)
    ]
    return f"<p>{html.escape(title)}</p><table><tr><th>layer</th>{head}</tr>{''.join(lines)}</table>"


def _of(part: PartEntry, domain: str) -> PartProfile:
    return next(profile for profile in part.domains if profile.domain == domain)


def _cell(value: float | None, values: Sequence[float]) -> str:
    """A cell whose colour is the value's place among the others."""
    if value is None:
        return "<td></td>"
    return f'<td style="background:hsl(210 70% {96 - 46 * shade(value, values):.0f}%)">{value:.3g}</td>'
