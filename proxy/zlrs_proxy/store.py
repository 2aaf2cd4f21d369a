"""Opens the decision graph that the configuration names."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from zlrs.config import FactorSettings, GraphSettings
    from zlrs.graph import Graph

MEMORY = "memory"


def graph_opener(settings: GraphSettings, factors: Sequence[FactorSettings] = ()) -> Callable[[], Graph]:
    """A function that opens the graph; it runs later, in a thread, and may fail there."""

    def opened() -> Graph:
        from zlrs.graph import DecisionGraph

        return DecisionGraph.open(settings, factors=factors)

    return opened
