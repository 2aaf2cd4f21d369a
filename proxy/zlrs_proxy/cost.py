"""What tokens cost by a table of prices: what was spent upstream, and apart from it what the graph saved."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from zlrs_proxy.rules import matches_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from zlrs.config import PriceSettings
    from zlrs_proxy.ledger import Row

_MILLION = 1_000_000
_MINUTES_A_DAY = 24 * 60


class Side(msgspec.Struct):
    """Requests and tokens, and what they cost. `cost` leaves out `unpriced` requests."""

    requests: int = 0
    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0
    declared: int = 0
    cost: float = 0.0
    unpriced: int = 0

    def add(self, row: Row, price: PriceSettings | None) -> None:
        """Add the sums of a row."""
        self.requests += row.requests
        self.input += row.input
        self.output += row.output
        self.cache_read += row.cache_read
        self.cache_write += row.cache_write
        self.declared += row.declared
        if price is None:
            self.unpriced += row.requests
        else:
            self.cost += cost_of(row, price)


class Line(msgspec.Struct):
    """One line of the report."""

    name: str
    spent: Side
    saved: Side
    merged: int = 0
    """Of the saved requests, those that waited for another's call."""
    unknown: int = 0
    """Answers of the upstream that did not say what they used; they are in neither sum."""


def cost_of(row: Row, price: PriceSettings) -> float:
    """The price of a row's tokens; what is read from or written to the upstream's cache has its own price."""
    read = price.cache_read_per_million
    write = price.cache_write_per_million
    plain = price.input_per_million
    return (
        row.input * plain
        + row.output * price.output_per_million
        + row.cache_read * (plain if read is None else read)
        + row.cache_write * (plain if write is None else write)
    ) / _MILLION


def price_of(model: str, prices: Sequence[PriceSettings]) -> PriceSettings | None:
    """The price of a model: of the entries that match the longest name wins, an exact one before all."""
    found = [price for price in prices if matches_name(price.model, model)]
    return max(found, key=lambda price: (price.model == model, len(price.model)), default=None)


def report(rows: Iterable[Row], prices: Sequence[PriceSettings], by: str) -> list[Line]:
    """Sums by `model`, `upstream`, `cohort` or `day`, in order of the name; the last line is the total."""
    lines: dict[str, Line] = {}
    total = Line("total", Side(), Side())
    for row in rows:
        name = _name(row, by)
        line = lines.get(name)
        if line is None:
            line = lines[name] = Line(name, Side(), Side())
        price = price_of(row.model, prices)
        for one in (line, total):
            if row.what == "unknown":
                one.unknown += row.requests
                continue
            (one.spent if row.what == "spent" else one.saved).add(row, price)
            one.merged += row.requests if row.what == "merged" else 0
    return [*(lines[name] for name in sorted(lines)), total]


def _name(row: Row, by: str) -> str:
    if by == "day":
        # Days of UTC, by number since 1970; the caller writes them as dates.
        return f"{row.minute // _MINUTES_A_DAY:06d}"
    found = {"model": row.model, "upstream": row.upstream, "cohort": row.cohort}[by]
    return found or "-"
