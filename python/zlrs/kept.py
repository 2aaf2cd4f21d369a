"""A conversation's computed state: kept between turns, saved to a file, taken back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, cast

from zlrs import _core
from zlrs.streams import reraise

if TYPE_CHECKING:
    import os
    from collections.abc import Sequence

    from zlrs.native import NativeEngine, NativePin
    from zlrs.results import Compute

Fit = Literal["weights", "tokenizer", "nothing"]


@dataclass(frozen=True)
class Saved:
    """What a save wrote: tokens whose keys and values are in the file, and the file's bytes."""

    tokens: int
    bytes: int


class Kept:
    """What is computed of one conversation stays in memory while this object keeps it.

    Args:
        core: The engine.
        tenant: Whose conversation it is; 32 bytes, or None for everyone.

    Attributes:
        compute: How its last answer was computed; approximate state is kept apart from exact state.
    """

    def __init__(self, core: NativeEngine, tenant: bytes | None = None) -> None:
        self._core = core
        self._tenant = tenant
        self.compute: Compute = "exact"
        self._pin: NativePin | None = None
        self.ids: tuple[int, ...] = ()

    @property
    def tokens(self) -> int:
        """Tokens that need not be computed again."""
        return self._pin.tokens if self._pin is not None and self._pin.held else 0

    def keep(self, ids: Sequence[int]) -> None:
        """Keep what is computed of these ids, in place of what was kept before.

        Raises:
            EngineClosedError: The engine is closed, or the process was forked.
        """
        before = self._pin
        try:
            # The new one first: what both hold must not be given up in between.
            self._pin = self._core.pin(ids, tenant=self._tenant, compute=self.compute)
        except _core.CoreError as error:
            reraise(error)
        self.ids = tuple(ids)
        if before is not None:
            before.release()

    def let_go(self) -> None:
        """Give up the memory; the ids stay known. May be called again."""
        if self._pin is not None:
            self._pin.release()
            self._pin = None

    def save(self, path: str | os.PathLike[str], key: bytes, *, note: bytes, limit_bytes: int) -> Saved:
        """Write ids, note, and what is computed to a file that is there complete or not at all.

        Args:
            path: The file; only its owner can read it.
            key: 32 secret bytes that seal it.
            note: Kept beside the ids, at most 16 MiB.
            limit_bytes: Longest file; keys and values beyond it are left out.

        Raises:
            ContextOverflowError: Ids and note alone are over the limit.
            APIError: The system did not write the file.
        """
        try:
            tokens, size = self._core.save_state(
                path, key, self.ids, limit_bytes=limit_bytes, note=note, tenant=self._tenant
            )
        except _core.CoreError as error:
            reraise(error)
        return Saved(tokens, size)

    @classmethod
    def restore(
        cls,
        core: NativeEngine,
        path: str | os.PathLike[str],
        key: bytes,
        *,
        limit_bytes: int,
        tenant: bytes | None = None,
    ) -> tuple[Kept, Fit, bytes]:
        """Take a saved state back.

        Returns:
            The kept state; how it fits: `weights` (keys and values were taken over as far as memory is free),
            `tokenizer` (the tokens have to be computed again) or `nothing`; and the note.

        Raises:
            KvCorruptError: The file is not, bit for bit, what was saved with this key.
            KvIncompatibleError: It was saved with another key, by another version, or is over the limit.
            SessionForbiddenError: It is another tenant's.
            SessionExpiredError: There is none.
        """
        try:
            restored = core.restore_state(path, key, limit_bytes=limit_bytes, tenant=tenant)
        except _core.CoreError as error:
            reraise(error)
        kept = cls(core, tenant)
        kept._pin = restored.pin
        kept.ids = tuple(restored.ids)
        return kept, cast("Fit", restored.fit), restored.note
