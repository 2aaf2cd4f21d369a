"""Why a figure misses its target, in terms of what the same run measured: nothing here is guessed."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from report import Figure

Products = dict[str, dict[str, dict[str, float]]]


@dataclass(frozen=True)
class Measured:
    """What reasons are made of, for one model."""

    ours: Mapping[str, float]
    """Median rates by test, tokens a second."""
    theirs: Mapping[str, float]
    """llama.cpp's."""
    types: Mapping[str, int]
    """Bytes that a token reads, by weight type."""
    products: Products
    """Each type's product alone, by rows at once."""
    clock_ghz: float
    threads: int
    multiplications: int
    """Of one token of a prompt."""
    read_share: float
    """Of plain reading, at decode from an empty context, in percent."""
    load_seconds: float
    file_bytes: int
    weight_bytes: int
    kv_bytes: int

    def _weighted(self, value: Callable[[dict[str, dict[str, float]]], float]) -> float:
        """The mean over the types, by their share of the time with one row."""
        known = {kind: size for kind, size in self.types.items() if kind in self.products}
        times = {kind: size / self.products[kind]["1"]["gb_per_s"] for kind, size in known.items()}
        return sum(value(self.products[kind]) * time for kind, time in times.items()) / sum(times.values())

    def prompt(self, test: str) -> str:
        """Of a prompt's rate."""
        reached = self.ours[test] * self.multiplications / (self.clock_ghz * 1e9 * self.threads)
        alone = self._weighted(lambda rows: rows["256"]["mac_per_cycle_and_core"])
        return f"{reached:.0f} multiply-adds per cycle and core; the products alone reach {alone:.0f}"

    def decode(self, test: str, ratio: float | None) -> str:
        """Of single tokens, with an empty or a long context."""
        depth = test.split("@")[1]
        if depth == "0" and ratio:
            limit = ratio * 100 / self.read_share
            share = f"{self.read_share:.0f} % of plain reading"
            return f"weights are read at {share}; at all of it the ratio would be {limit:.2f}"
        short = next(name for name in self.ours if name.startswith("tg") and name.endswith("@0"))
        mine = 1e3 / self.ours[test] - 1e3 / self.ours[short]
        text = f"the context costs a token {mine:.1f} ms of {1e3 / self.ours[test]:.1f}"
        if test in self.theirs and short in self.theirs:
            other = 1e3 / self.theirs[test] - 1e3 / self.theirs[short]
            text += f"; llama.cpp {other:.1f} of {1e3 / self.theirs[test]:.1f}"
        return text

    def batch(self, test: str) -> str:
        """Of several sequences at once."""
        rows, rest = test.removeprefix("b").split(":")
        one = f"b1:{rest}"
        if one not in self.ours:
            return ""
        mine = int(rows) * self.ours[one] / self.ours[test]
        text = f"a step of {rows} rows takes {mine:.2f} x one of 1"
        if one in self.theirs and test in self.theirs:
            text += f"; llama.cpp's {int(rows) * self.theirs[one] / self.theirs[test]:.2f} x"
        return text

    def step(self, rows: str) -> str:
        """Of the time of a step of so many rows."""
        alone = self._weighted(lambda by: by[rows]["us"] / by["1"]["us"])
        return f"the products alone take {alone:.2f} x"

    def share(self) -> str:
        """Of the read bandwidth."""
        known = {kind: size for kind, size in self.types.items() if kind in self.products}
        seconds = sum(size / self.products[kind]["1"]["gb_per_s"] for kind, size in known.items())
        alone = sum(known.values()) / seconds
        return f"the products alone read {alone:.1f} GB/s at their best"

    def load(self) -> str:
        """Of loading, and of a start."""
        rate = self.file_bytes / self.load_seconds / 1e9
        return f"loading takes {self.load_seconds:.2f} s: {rate:.2f} GB/s of file are read and packed"

    def memory(self, peak_bytes: float) -> str:
        """Of the peak."""
        rest = peak_bytes - self.weight_bytes - self.kv_bytes
        weights, kv = self.weight_bytes / 1e6, self.kv_bytes / 1e6
        parts = f"weights {weights:.0f}, KV {kv:.0f}, all else {rest / 1e6:.0f} MB"
        return f"{parts}; the file has {self.file_bytes / 1e6:.0f}"

    def explain(self, figure: Figure) -> Figure:
        """The figure, with the reason if it misses its target."""
        if figure.met is not False:
            return figure
        name, words = figure.figure.split(",", maxsplit=1)[0], figure.figure.split()
        if name.startswith("pp"):
            reason = self.prompt(name)
        elif name.startswith("tg"):
            reason = self.decode(name, figure.ratio)
        elif name.startswith("step of"):
            reason = self.step(words[2])
        elif name.startswith("share"):
            reason = self.share()
        elif name.startswith(("load", "from start")):
            reason = self.load()
        elif name.startswith("peak"):
            reason = self.memory(figure.value * 1e6)
        else:
            reason = self.batch(name) if name.startswith("b") else ""
        return replace(figure, reason=reason)
