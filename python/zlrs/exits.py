"""Exit heads: reading and writing their files, and what was measured of them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from zlrs import _core
from zlrs.errors import ConfigurationError
from zlrs.masks import save_bytes
from zlrs.streams import reraise

if TYPE_CHECKING:
    from collections.abc import Mapping

FILE_LIMIT_BYTES = 2 << 20


class ExitFit(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How well one head tells rows whose first choice still changes, on the texts it was fitted to.

    Attributes:
        layer: The layer that rows may leave before.
        rows: Rows it was fitted to.
        agreement: Share of them whose first choice there was the model's own already.
        area_under_curve: Probability that of two rows the one that changes is predicted to.
    """

    layer: int
    rows: int
    agreement: float
    area_under_curve: float


class ExitDomain(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What was seen on held-out texts of one kind, computed with rows leaving.

    Attributes:
        domain: Which texts.
        rows: Rows compared with the full model.
        differing: Those whose first choice is another.
        upper: Upper bound of their share (Clopper-Pearson, 95 %, rows taken as independent).
        left: Rows that left early.
        row_layers: Layers left out, summed over rows.
        skip_cap: Share of rows that may leave.
    """

    domain: str
    rows: int
    differing: int
    upper: float
    left: int
    row_layers: int
    skip_cap: float


class ExitLevel(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Thresholds that were tested.

    Attributes:
        rate: Share of wrong first choices among leaving rows that they were chosen for.
        thresholds: One a layer; nobody leaves where there is none.
        domains: What was seen.
        keeps: Whether every domain kept the bound and the cap.
    """

    rate: float
    thresholds: list[float | None]
    domains: list[ExitDomain]
    keeps: bool


class ExitReport(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What was measured when exit heads were trained.

    Attributes:
        model: The model's name.
        bound: Most first choices that may be others than the full model's, in every domain.
        confidence: Probability that the bound holds.
        layers: Layers of the model.
        fits: The heads.
        levels: Thresholds from careful to daring, up to the first that did not keep the bound.
        chosen: Index of the level in use; absent if none kept the bound: then nobody leaves.
        seconds: Wall-clock time of the training.
    """

    model: str
    bound: float
    confidence: float
    layers: int
    fits: list[ExitFit]
    levels: list[ExitLevel]
    chosen: int | None
    seconds: float

    def saving(self) -> float:
        """Share of all layers of all held-out rows that were left out at the level in use."""
        if self.chosen is None:
            return 0.0
        domains = self.levels[self.chosen].domains
        rows = sum(domain.rows for domain in domains)
        return sum(domain.row_layers for domain in domains) / max(rows * self.layers, 1)


def load_exits(path: str | os.PathLike[str]) -> _core.ExitHeads:
    """Read a file of exit heads.

    Raises:
        ConfigurationError: There is no such file, it is too long, or it is not, bit for bit, one of ours.
    """
    try:
        with Path(path).open("rb") as file:
            data = file.read(FILE_LIMIT_BYTES + 1)
    except OSError as error:
        raise ConfigurationError(
            f"the exit heads {os.fspath(path)} cannot be read: {error.strerror}"
        ) from error
    try:
        return _core.ExitHeads.from_bytes(data)
    except _core.CoreError as error:
        reraise(error)


def save_exits(heads: _core.ExitHeads, path: str | os.PathLike[str]) -> None:
    """Write a file of exit heads; it is there complete or not at all."""
    save_bytes(heads.to_bytes(), path)


def report_of(heads: _core.ExitHeads) -> ExitReport:
    """What was measured.

    Raises:
        ConfigurationError: The report in the file is not one of ours.
    """
    try:
        report = msgspec.json.decode(heads.report.encode(), type=ExitReport)
    except msgspec.DecodeError as error:
        raise ConfigurationError(f"the report of the exit heads cannot be read: {error}") from error
    if report.chosen is not None and not 0 <= report.chosen < len(report.levels):
        raise ConfigurationError(
            f"the report of the exit heads cannot be read: level {report.chosen} of {len(report.levels)}"
        )
    return report


def measured(
    trained: tuple[_core.ExitHeads, list[Fit], list[Level], int | None],
    *,
    model: str,
    bound: float,
    skip_caps: Mapping[str, float],
    seconds: float,
) -> _core.ExitHeads:
    """The trained heads with their report.

    Args:
        trained: What `ExitTrainer.train` returned.
        model: The model's name.
        bound: What was asked for.
        skip_caps: What was asked for, by domain.
        seconds: How long it took.
    """
    heads, fits, levels, chosen = trained
    report = ExitReport(
        model=model,
        bound=bound,
        confidence=0.95,
        layers=heads.layers,
        fits=[
            ExitFit(layer=layer, rows=rows, agreement=agreement, area_under_curve=area)
            for layer, rows, agreement, area in fits
        ],
        levels=[
            ExitLevel(
                rate=rate,
                thresholds=list(thresholds),
                domains=[
                    ExitDomain(
                        domain=domain, rows=rows, differing=differing, upper=upper, left=left,
                        row_layers=row_layers, skip_cap=skip_caps[domain],
                    )
                    for domain, rows, differing, upper, left, row_layers in domains
                ],
                keeps=keeps,
            )
            for rate, thresholds, domains, keeps in levels
        ],
        chosen=chosen,
        seconds=round(seconds, 1),
    )  # fmt: skip
    return heads.measured(msgspec.json.encode(report).decode())


Fit = tuple[int, int, float, float]
Level = tuple[float, list[float | None], list[tuple[str, int, int, float, int, int]], bool]
