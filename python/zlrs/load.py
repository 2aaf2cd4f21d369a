"""Loading a model: what was asked for, on its way to the native engine."""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from zlrs import _core
from zlrs.streams import reraise

if TYPE_CHECKING:
    from collections.abc import Callable

    from zlrs.governor import Governor
    from zlrs.native import NativeEngine

_LOGGER = logging.getLogger("zlrs.engine")

DRAFT_VOCABULARY = 32_768
"""Tokens that the model guesses by itself where its mask names no number."""


class Load(NamedTuple):
    """What a load was asked for."""

    path: Path
    threads: int | None
    context_tokens: int | None
    kv_bytes: int | None
    queue_limit: int
    drafting: str
    device: str
    kv_precision: str
    governor: Governor
    mask: _core.Mask | None
    mask_fallback: bool
    self_drafting: str
    draft_mask: _core.Mask | None
    draft_vocabulary: int
    exits: _core.ExitHeads | None
    neurons: _core.Neurons | None

    def run(self, progress: Callable[[int, int], None] | None) -> NativeEngine:
        """Load."""
        try:
            core = _core.Engine.load(
                os.fspath(self.path),
                threads=self.threads,
                context_tokens=self.context_tokens,
                kv_bytes=self.kv_bytes,
                queue_limit=self.queue_limit,
                drafting=self.drafting,
                device=self.device,
                kv_precision=self.kv_precision,
                governor_policy=self.governor.policy,
                thermal_limit_c=self.governor.thermal_limit_c,
                mask=self.mask,
                mask_fallback=self.mask_fallback,
                self_drafting=self.self_drafting,
                draft_mask=self.draft_mask,
                draft_vocabulary=self.draft_vocabulary,
                exits=self.exits,
                neurons=self.neurons,
                progress=progress,
            )
        except _core.CoreError as error:
            reraise(error)
        note = core.device()[1]
        if note is not None:
            _LOGGER.info("computing on the processor: %s", note)
        return core


def found_vocabulary(mask: _core.Mask | None) -> int:
    """How many tokens are best guessed with a mask."""
    from zlrs.profile.report import report_of

    report = None if mask is None else report_of(mask)
    return (report.draft_vocabulary if report is not None else 0) or DRAFT_VOCABULARY


def served_name(given: str, path: Path) -> str:
    """The name a server shows: what was asked for, or the file's stem for paths and URLs."""
    is_file = given.endswith(".gguf") or os.sep in given or Path(given) == path
    return path.stem if is_file else given
