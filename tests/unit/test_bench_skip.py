"""Parts of the benchmark of leaving work out that say whether a target is met."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from support.real_model import small_model
from zlrs import _core
from zlrs.engine import Engine
from zlrs.masks import save_mask
from zlrs.profile import Domain
from zlrs.profile.domains import DomainText

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benches"))

from skip import ring, together

TEXTS = ("The town by the river had three bridges, and each of them", "def fib(n):\n    if n < 2:\n")


@pytest.mark.parametrize(
    ("provisional_ms", "exact_ms", "ratio", "met"),
    [(0.0, 0.0, None, False), (0.0, 2.0, 0.0, True), (1.0, 2.0, 0.5, True), (2.0, 2.0, 1.0, False)],
)
def test_a_gap_that_cannot_become_shorter_is_missed(
    provisional_ms: float, exact_ms: float, ratio: float | None, met: bool
) -> None:
    figure = ring.between_p50(provisional_ms, exact_ms)
    assert (figure.value, figure.peer_value) == (provisional_ms, exact_ms)
    assert (figure.ratio, figure.target, figure.met) == (ratio, "<= 0.99 x", met)


@pytest.mark.parametrize(
    ("aggressive", "upper", "met"), [(111.0, 0.009, True), (111.0, 0.011, False), (109.0, 0.009, False)]
)
def test_fast_answers_that_are_others_meet_no_target(aggressive: float, upper: float, met: bool) -> None:
    figure = together.decoding(100.0, aggressive, "", upper)
    assert (figure.ratio, figure.target, figure.met) == (aggressive / 100, ">= 1.10 x", met)


def test_what_is_held_out_was_no_part_of_a_search() -> None:
    texts = [DomainText("one", "abcdefgh"), DomainText("two", "xyz")]
    first, rest = together.split(texts)
    assert [text.name for text in first] == [text.name for text in rest] == ["one", "two"]
    assert [a.text + b.text for a, b in zip(first, rest, strict=True)] == ["abcdefgh", "xyz"]
    assert all(text.text for text in (*first, *rest))


@pytest.mark.t1
async def test_the_full_model_reads_answers_again(tmp_path: Path) -> None:
    model = str(small_model())
    mask = _core.Meter.load(small_model(), window_tokens=16).empty_mask()
    for layer in (9, 12, 15):
        mask = mask.without(layer, "mlp")
    save_mask(mask, tmp_path / "some.mask")
    with (
        Engine.load(model, context_tokens=256, drafting="off", progress=False) as full,
        Engine.load(
            model, mask=tmp_path / "some.mask", context_tokens=256, drafting="off", progress=False
        ) as lessened,
    ):
        domains = [Domain(text[:3], [full.prepare(text)]) for text in TEXTS]
        same = await together.read_again(full, full, domains)
        other = await together.read_again(full, lessened, domains)
    assert [domain.differing for domain in same] == [0, 0]
    assert [domain.domain for domain in same] == ["The", "def"]
    assert all(0 < domain.rows <= together.ANSWER_TOKENS + 1 for domain in (*same, *other))
    assert sum(domain.differing for domain in other) > 0
