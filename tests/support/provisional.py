"""What a reader of provisional streams keeps: the latest text of every token. Checks the events' rules."""

from __future__ import annotations

from dataclasses import dataclass, field

RING_DEPTH = 5


@dataclass
class ProvisionalReader:
    """Reads `token` and `validation_update` events.

    Attributes:
        texts: The latest text by index.
        open: Indices that may still change.
        guesses: How many were shown.
        corrections: How many texts were replaced.
    """

    texts: list[str] = field(default_factory=list)
    open: list[int] = field(default_factory=list)
    guesses: int = 0
    corrections: int = 0

    @property
    def text(self) -> str:
        """The answer as far as it is shown."""
        return "".join(self.texts)

    def token(self, index: int, text: str, *, provisional: bool, reach: int = RING_DEPTH) -> None:
        """A `token` event."""
        assert index <= len(self.texts), f"a gap before {index}"
        if index == len(self.texts):
            self.texts.append(text)
        else:
            # Only what was taken back is shown again.
            assert self.texts[index] == ""
            self.texts[index] = text
        if provisional:
            self.guesses += 1
            self.open.append(index)
            # One more may be there: what an update put right is certain, which only the next token tells.
            assert len(set(self.open)) <= reach + 1
        else:
            self.open = [other for other in self.open if other > index]

    def update(self, index: int, original: str, corrected: str, *, reach: int = RING_DEPTH) -> None:
        """A `validation_update` event."""
        assert self.texts[index] == original != corrected
        assert len(self.texts) - index <= reach
        self.texts[index] = corrected
        self.corrections += 1
        self.open = [other for other in self.open if other > index or (other == index and corrected)]

    def read(self, name: str, fields: dict[str, object], *, reach: int = RING_DEPTH) -> None:
        """An event by name, as it is on the wire."""
        index = fields["index"]
        assert isinstance(index, int)
        if name == "token":
            self.token(index, str(fields["text"]), provisional=bool(fields["provisional"]), reach=reach)
        else:
            assert name == "validation_update"
            self.update(index, str(fields["original_token"]), str(fields["corrected_token"]), reach=reach)
