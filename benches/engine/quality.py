"""How good the predictions are: ours and llama.cpp's on the same file, both against exact activations.

    cd benches && ../.venv/bin/python -m engine.quality [--model NAME]... [--text FILE] [--windows N]

The reference is the same weights with activations and KV in single precision: the file's weights are
dequantised (`llama-quantize`) and llama.cpp computes them (`llama-perplexity`): it owes nothing to zlrs. Then
both engines read the quantised file as they run it. Writes docs/benchmarks/quality.json and quality.md.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import re
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from report import ROOT, Figure, write_report

from engine import peers, runners
from zlrs.models import installed

# With the most windows of each: the time goes into the reference, and grows with the model.
MODELS = {
    "smollm2-135m-instruct-q4_1": 12,
    "gemma-3-270m-q4_k_m": 8,
    "qwen2.5-coder-0.5b-instruct-q4_k_m": 8,
    "qwen2.5-coder-1.5b-instruct-q4_k_m": 3,
}
TEXT = Path(__file__).with_name("wikitext2_excerpt.txt")
WINDOW_TOKENS = 512
# Gemma's layers look back 512 tokens, all but each sixth: only a longer window shows whether that is right.
LONG_WINDOWS = {"gemma-3-270m-q4_k_m": 2048}
PERPLEXITY_PERCENT = 0.5
# Of what is free, the weights in single precision may take this much.
MEMORY_SHARE = 0.6


def _free_bytes() -> int:
    text = Path("/proc/meminfo").read_text(encoding="utf-8")
    found = re.search(r"MemAvailable:\s+(\d+) kB", text)
    return int(found[1]) * 1024 if found else 0


def _number(pattern: str, text: str) -> float:
    found = re.search(pattern, text)
    if not found:
        raise runners.RunError(f"llama-perplexity printed nothing like {pattern!r}")
    return float(found[1])


@dataclass(frozen=True)
class Windows:
    """How a text is cut."""

    tokens: int
    most: int

    @property
    def options(self) -> list[str]:
        """For `llama-perplexity`; a batch is a window."""
        size = str(self.tokens)
        return ["-c", size, "-b", size, "--chunks", str(self.most)]


class Comparison:
    """The programs and the text of one run."""

    def __init__(self, peer: peers.Peer, text: Path, threads: int, folder: Path) -> None:
        self._programs = Path(peer.program[0])
        self._text, self._threads, self._folder = text, threads, folder
        self._quality = peers.example("zlrs-engine", "quality")

    def _perplexity(self, model: Path, windows: Windows, *options: str) -> str:
        command = [str(self._programs / "llama-perplexity"), "-m", str(model), "-f", str(self._text)]
        command += [*windows.options, "-t", str(self._threads)]
        return runners.measure([*command, *options], self._threads, with_errors=True)[0]

    def figures(self, path: Path, cuts: list[Windows]) -> list[Figure]:
        """Perplexity and divergence of one model, for each way to cut the text."""
        exact = self._folder / f"{path.stem}-f32.gguf"
        quantize = [
            str(self._programs / "llama-quantize"),
            "--allow-requantize",
            str(path),
            str(exact),
            "F32",
        ]
        try:
            runners.measure([*quantize, str(self._threads)], self._threads)
            size = exact.stat().st_size
            if size > MEMORY_SHARE * _free_bytes():
                raise runners.RunError(f"{size / 1e9:.1f} GB in single precision do not fit into memory")
            return [figure for windows in cuts for figure in self._compared(path, exact, windows)]
        finally:
            exact.unlink(missing_ok=True)

    def _compared(self, path: Path, exact: Path, windows: Windows) -> list[Figure]:
        saved = self._folder / "predictions"
        single = ("-ctk", "f32", "-ctv", "f32", "-fa", "off")
        try:
            self._perplexity(exact, windows, *single, "--kl-divergence-base", str(saved))
            text = self._perplexity(path, windows, "--kl-divergence", "--kl-divergence-base", str(saved))
            command = [self._quality, str(path), str(self._threads), str(saved), str(self._text)]
            ours = json.loads(runners.measure(command, self._threads)[0])
        finally:
            saved.unlink(missing_ok=True)
        if not ours["same_tokens"]:
            raise runners.RunError("the two tokenizers cut the text differently")
        return _compare(path.name, windows, ours, text)


def _compare(name: str, windows: Windows, ours: dict[str, float], text: str) -> list[Figure]:
    theirs = _number(r"Mean PPL\(Q\)\s*:\s*([\d.]+)", text)
    divergence = _number(r"Mean\s+KLD:\s*([\d.]+)", text)
    spread = _number(r"Mean\s+KLD:\s*[\d.]+ ±\s*([\d.]+)", text)
    same = _number(r"Same top p:\s*([\d.]+)", text)
    ratio = ours["perplexity"] / theirs
    tokens = f"{ours['scored_tokens']} tokens scored in {ours['windows']} windows"
    what = f"{name}, window {windows.tokens}"
    close, no_worse = abs(ratio - 1) <= PERPLEXITY_PERCENT / 100, ours["divergence"] <= divergence
    mine, other = (100 * (value / ours["base_perplexity"] - 1) for value in (ours["perplexity"], theirs))
    off = f"from exact activations ours is off by {mine:+.2f} %, llama.cpp's by {other:+.2f} %"
    errors = abs(ours["divergence"] - divergence) / math.hypot(ours["divergence_error"], spread)
    return [
        Figure(
            f"perplexity, {what}",
            "",
            ours["perplexity"],
            peer="llama.cpp",
            peer_value=theirs,
            ratio=ratio,
            target=f"within {PERPLEXITY_PERCENT} %",
            met=close,
            note=f"{ours['base_perplexity']:.4f} with exact activations; {tokens}",
            reason="" if close else off,
        ),
        Figure(
            f"divergence from exact activations, {what}",
            "nats",
            ours["divergence"],
            peer="llama.cpp",
            peer_value=divergence,
            ratio=ours["divergence"] / divergence,
            target="<= 1 x",
            met=no_worse,
            note=f"mean KL; standard errors {ours['divergence_error']:.6f} and {spread:.6f}",
            reason="" if no_worse else f"the difference is {errors:.1f} standard errors of both together",
        ),
        Figure(
            f"same best token as exact activations, {what}",
            "%",
            ours["same_best_percent"],
            peer="llama.cpp",
            peer_value=same,
            ratio=ours["same_best_percent"] / same,
        ),
    ]


def _page(figures: list[Figure], remarks: list[str]) -> str:
    lines = ["# The engine's predictions beside llama.cpp's", "", *(f"{remark}\n" for remark in remarks)]
    lines += [
        "| figure | zlrs | llama.cpp | ratio | target | | why missed |",
        "|---|---|---|---|---|---|---|",
    ]
    for figure in figures:
        met = {None: "", True: " met", False: " missed"}[figure.met]
        value = f"{figure.value:.5f} {figure.unit}".strip()
        lines.append(
            f"| {figure.figure} | {value} | {figure.peer_value:.5f} | {figure.ratio:.4f}"
            f" | {figure.target}{met} | {figure.note} | {figure.reason} |"
        )
    return "\n".join(lines) + "\n"


def main() -> None:
    """Measure and report."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--model", action="append")
    parser.add_argument("--text", type=Path, default=TEXT)
    parser.add_argument(
        "--windows", type=int, help="of each model; by default 12 to 3, fewer of larger models"
    )
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    options = parser.parse_args()
    peer = peers.install(["llama.cpp"])[0]
    if not peer:
        raise SystemExit("llama.cpp cannot be had; there is nothing to compare with")
    files = {model.name: path for model, path in installed()}
    method = (
        f"By `make bench-quality`. Text: {options.text.name}, the second half of each window scored."
        " Both engines read the same quantised file."
        " Exact activations: the same weights dequantised, activations and KV in single precision, computed"
        f" by llama.cpp {peer[0].version}."
    )
    remarks = [method]
    figures: list[Figure] = []
    with tempfile.TemporaryDirectory(dir=peers.FOLDER) as folder:
        run = Comparison(peer[0], options.text, options.threads, Path(folder))
        for name in options.model or MODELS:
            path = files.get(name) or Path(name)
            if not path.exists():
                remarks.append(f"{name} is not installed: `zlrs models pull {name}`.")
                continue
            began = time.perf_counter()
            most = options.windows or MODELS.get(name, max(MODELS.values()))
            cuts = [Windows(WINDOW_TOKENS, most)]
            if name in LONG_WINDOWS:
                long = LONG_WINDOWS[name]
                cuts.append(Windows(long, max(1, most * WINDOW_TOKENS // long)))
            try:
                figures += run.figures(path, cuts)
            except (runners.RunError, OSError, ValueError) as error:
                remarks.append(f"{path.name}: {error}.")
            print(f"{name}: {time.perf_counter() - began:.0f} s", flush=True)
    write_report("quality", figures)
    page = ROOT / "docs" / "benchmarks" / "quality.md"
    page.write_text(_page(figures, remarks), encoding="utf-8")
    print(f"written: {page.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
