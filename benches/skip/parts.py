"""The parts of the benchmark, in the order in which they run.

A part is a function from a `Setting` to figures, in a module of its own. Its figures begin with its name and
a colon, so that `--part NAME` replaces just these in the report. Each takes some minutes with the 0.5B
model; harm and gain stand in one figure or beside one another.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from skip import drafts, exits, masks, neurons, ring, tiles, together

if TYPE_CHECKING:
    from collections.abc import Callable

    from report import Figure

    from skip.setting import Setting

PARTS: dict[str, Callable[[Setting], list[Figure]]] = {
    "masks": masks.measure,
    "tiles": tiles.measure,
    "exits": exits.measure,
    "drafts": drafts.measure,
    "neurons": neurons.measure,
    "together": together.measure,
    "ring": ring.measure,
}
