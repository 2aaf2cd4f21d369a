"""Thresholds under which neurons count for nothing: their files, and what was measured of them."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import msgspec

from zlrs import _core
from zlrs.errors import ConfigurationError
from zlrs.profile.harm import DomainHarm  # noqa: TC001 - msgspec reads it when it decodes
from zlrs.streams import reraise

FILE_LIMIT_BYTES = 2 << 20


class Reach(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How many neurons count for nothing, and how many of them lie where that saves work.

    Attributes:
        neurons: Share of all neurons of all rows.
        strips: With all of the eight rows that lie together in the packed up projection: not computed.
        sorted_strips: The same, if neurons lay in the order of how often they count for nothing.
        blocks_of_32: With all of a block of 32 columns of the down projection.
        blocks_of_256: With all of a block of 256.
    """

    neurons: float
    strips: float
    sorted_strips: float
    blocks_of_32: float
    blocks_of_256: float


class NeuronReport(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What was measured when thresholds were chosen.

    Attributes:
        model: The model's name.
        bound: Share of first choices that may be others in any domain, upper bound.
        share: Share of gates that the thresholds were put above; 0 where none kept the bound.
        held_out: The loss on texts that the choice did not look at.
        reach: What of it saves work.
        up_bytes_saved: Share of the weights read for a token that need not be read.
    """

    model: str
    bound: float
    share: float
    held_out: list[DomainHarm]
    reach: Reach
    up_bytes_saved: float


def report_of(neurons: _core.Neurons) -> NeuronReport:
    """What was measured.

    Raises:
        ConfigurationError: The report in the file is not one of ours.
    """
    try:
        return msgspec.json.decode(neurons.report.encode(), type=NeuronReport)
    except msgspec.DecodeError as error:
        raise ConfigurationError(f"the report of the thresholds cannot be read: {error}") from error


def load_neurons(path: str | os.PathLike[str]) -> _core.Neurons:
    """Read a file of thresholds.

    Raises:
        ConfigurationError: There is no such file, it is too long, or it is not, bit for bit, one of ours.
    """
    try:
        with Path(path).open("rb") as file:
            data = file.read(FILE_LIMIT_BYTES + 1)
    except OSError as error:
        reason = f"the thresholds {os.fspath(path)} cannot be read: {error.strerror}"
        raise ConfigurationError(reason) from error
    try:
        return _core.Neurons.from_bytes(data)
    except _core.CoreError as error:
        reraise(error)


def save_neurons(neurons: _core.Neurons, path: str | os.PathLike[str]) -> None:
    """Write a file of thresholds; it is there complete or not at all."""
    target = Path(path)
    descriptor, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(neurons.to_bytes())
        Path(name).chmod(0o644)
        Path(name).replace(target)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
