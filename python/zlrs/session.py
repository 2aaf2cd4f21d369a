"""`Session`: a conversation with an engine, turn by turn, that pays only for what is new."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from zlrs.errors import KvIncompatibleError
from zlrs.types import Message
from zlrs.typing_ahead import settled_ids

if TYPE_CHECKING:
    import os
    from collections.abc import Sequence
    from pathlib import Path
    from types import TracebackType

    from typing_extensions import Self, Unpack

    from zlrs.engine import Engine
    from zlrs.kept import Kept, Saved
    from zlrs.options import GenerateOptions
    from zlrs.results import Completion

STATE_LIMIT_BYTES = 1 << 30


class Session:
    """One conversation. Use it from one thread at a time; made by `Engine.session`.

    Answers are those of the whole conversation sent at once, bit for bit: what was computed before is reused
    where the tokens are the same, and only there.

    Example:
        >>> with engine.session(system="Answer briefly.") as session:  # doctest: +SKIP
        ...     session.generate("Name a river.").text
        ...     session.generate("And a lake?").usage.cached_tokens  # > 0
    """

    def __init__(self, engine: Engine, turns: Sequence[Message], kept: Kept, tenant: bytes | None) -> None:
        self._engine = engine
        self._kept = kept
        self._tenant = tenant
        self.turns = tuple(turns)

    @property
    def kept_tokens(self) -> int:
        """Tokens of the conversation that need not be computed again."""
        return self._kept.tokens

    def generate(self, text: str, **options: Unpack[GenerateOptions]) -> Completion:
        """Say `text` as the user and return the answer; both become part of the conversation.

        An answer that fails or is interrupted leaves the conversation as it was.
        """
        turns = (*self.turns, Message("user", text))
        ids = self._engine.prepare(turns)
        options["tenant"] = self._tenant
        completion = self._engine.complete(ids, **options)
        self._settle(turns, ids, completion)
        return completion

    async def generate_async(self, text: str, **options: Unpack[GenerateOptions]) -> Completion:
        """As `generate`, for the running event loop."""
        turns = (*self.turns, Message("user", text))
        ids = await self._engine.prepare_async(turns)
        options["tenant"] = self._tenant
        completion = await self._engine.complete_async(ids, **options)
        self._settle(turns, ids, completion)
        return completion

    def draft(self, typed: str) -> int:
        """Compute what is certain of a turn that is still being typed, behind everything else that runs.

        Its last word is held back. May be called again with every key; what an edit undid is lost work, and
        the answer to the final text is the same with and without.

        Returns:
            Tokens of the prompt that are computed now.
        """

        def render(text: str) -> list[int]:
            return self._engine.prepare((*self.turns, Message("user", text)))

        ids = settled_ids(typed, render)
        if ids:
            options: GenerateOptions = {"max_tokens": 1, "priority": "batch", "tenant": self._tenant}
            self._engine.complete(ids, **options)
            self._kept.keep(ids)
        return self._kept.tokens

    def save(
        self, path: str | os.PathLike[str], key: bytes, *, limit_bytes: int = STATE_LIMIT_BYTES
    ) -> Saved:
        """Write the conversation and what is computed of it to a file; `Engine.restore_session` reads it.

        The file has the conversation's text in it. Only its owner can read it, and `key` (32 secret bytes)
        seals it: what was changed is refused.
        """
        return self._kept.save(path, key, note=msgspec.json.encode(self.turns), limit_bytes=limit_bytes)

    @classmethod
    def restore(
        cls, engine: Engine, kept: Kept, fit: str, note: bytes, tenant: bytes | None, path: Path
    ) -> Self:
        """From a saved state that was read.

        Raises:
            KvIncompatibleError: It was made with another tokenizer.
        """
        if fit == "nothing":
            kept.let_go()
            raise KvIncompatibleError(f"{path} was made with a model of another tokenizer")
        turns = msgspec.json.decode(note, type=tuple[Message, ...])
        return cls(engine, turns, kept, tenant)

    def close(self) -> None:
        """Give up the memory. May be called again; the conversation may still go on, and is computed anew."""
        self._kept.let_go()

    def _settle(self, turns: tuple[Message, ...], ids: Sequence[int], completion: Completion) -> None:
        self._kept.compute = completion.compute
        self._kept.keep([*ids, *completion.token_ids])
        self.turns = (*turns, Message("assistant", completion.text))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<zlrs.Session {len(self.turns)} turns, {self.kept_tokens} tokens kept>"
