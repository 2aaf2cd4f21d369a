"""A missed target of the engine's benchmark says why, from what the same run measured."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benches"))

from engine.reasons import Measured
from report import Figure

PRODUCTS = {
    "Q4_K": {
        "1": {"us": 10.0, "gb_per_s": 40.0, "mac_per_cycle_and_core": 10.0},
        "2": {"us": 12.0, "gb_per_s": 33.0, "mac_per_cycle_and_core": 17.0},
        "4": {"us": 20.0, "gb_per_s": 20.0, "mac_per_cycle_and_core": 20.0},
        "256": {"us": 500.0, "gb_per_s": 1.0, "mac_per_cycle_and_core": 60.0},
    },
    "Q6_K": {
        "1": {"us": 10.0, "gb_per_s": 20.0, "mac_per_cycle_and_core": 10.0},
        "2": {"us": 10.0, "gb_per_s": 20.0, "mac_per_cycle_and_core": 20.0},
        "4": {"us": 20.0, "gb_per_s": 10.0, "mac_per_cycle_and_core": 20.0},
        "256": {"us": 800.0, "gb_per_s": 1.0, "mac_per_cycle_and_core": 30.0},
    },
}
MEASURED = Measured(
    ours={"pp512": 100.0, "tg64@0": 50.0, "tg32@4096": 25.0, "b1:32@32": 50.0, "b8:32@32": 200.0},
    theirs={"pp512": 50.0, "tg64@0": 40.0, "tg32@4096": 10.0, "b8:32@32": 180.0},
    # As long to read as one another: the means over the types are the middle.
    types={"Q4_K": 800_000_000, "Q6_K": 400_000_000},
    products=PRODUCTS,
    clock_ghz=2.0,
    threads=2,
    multiplications=1_000_000_000,
    read_share=50.0,
    load_seconds=2.0,
    file_bytes=1_000_000_000,
    weight_bytes=1_200_000_000,
    kv_bytes=100_000_000,
)


@pytest.mark.parametrize(
    ("figure", "ratio", "reason"),
    [
        ("pp512, m", 2.0, "25 multiply-adds per cycle and core; the products alone reach 45"),
        (
            "tg64@0, m",
            1.25,
            "weights are read at 50 % of plain reading; at all of it the ratio would be 2.50",
        ),
        ("tg32@4096, m", 2.5, "the context costs a token 20.0 ms of 40.0; llama.cpp 75.0 of 100.0"),
        ("b8:32@32, m", 1.1, "a step of 8 rows takes 2.00 x one of 1"),
        ("step of 2 rows to one of 1, m", None, "the products alone take 1.10 x"),
        ("share of plain reading at decode, m", None, "the products alone read 30.0 GB/s at their best"),
        ("load, m", 1.5, "loading takes 2.00 s: 0.50 GB/s of file are read and packed"),
        ("from start to one token, m", 1.5, "loading takes 2.00 s: 0.50 GB/s of file are read and packed"),
        ("peak memory, m", None, "weights 1200, KV 100, all else 200 MB; the file has 1000"),
        ("idle, m", None, ""),
    ],
)
def test_what_is_missed_is_explained_by_measures(figure: str, ratio: float | None, reason: str) -> None:
    missed = Figure(figure, "", 1500.0, ratio=ratio, target="x", met=False)
    assert MEASURED.explain(missed).reason == reason


@pytest.mark.parametrize("met", [True, None])
def test_what_is_met_or_has_no_target_is_not_explained(met: bool | None) -> None:
    assert not MEASURED.explain(Figure("pp512, m", "tok/s", 100.0, ratio=2.0, met=met)).reason
