"""Changes to a request's body that the operator asked for: texts that differ are put in place, no more."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, NamedTuple

from zlrs.errors import ConfigurationError
from zlrs.patterns import Patterns
from zlrs.texts import ASSISTANT, FIRST_SYSTEM, SYSTEM, TOOL, USER, clean, places, redact
from zlrs_proxy.settings import SettingsError

if TYPE_CHECKING:
    from zlrs.texts import Place, Places
    from zlrs_proxy.settings import RewriteSettings

# Results of tools may be code and data, and what the model has said is its own: neither is tidied.
_CLEANED = frozenset({SYSTEM, USER})
_REDACTED = frozenset({SYSTEM, USER, TOOL, ASSISTANT})
# Beside these a temperature is refused, or has another meaning.
_NO_TEMPERATURE = ("thinking", "reasoning", "reasoning_effort", "output_config", "top_p", "top_k")
_ZERO = b"0"


class Edit(NamedTuple):
    """One change: where, what (`hygiene`, `redact`, `temper`), and how much by which rule. No text."""

    path: str
    what: str
    counts: dict[str, int]

    def listed(self) -> dict[str, object]:
        """As it stands in the audit record."""
        return {"path": self.path, "what": self.what, "counts": self.counts}


class Changed(NamedTuple):
    """A body and what was changed in it."""

    body: bytes
    edits: tuple[Edit, ...]


class Editor:
    """Changes bodies as the settings say.

    Raises:
        SettingsError: A pattern, a rule or a kind cannot be used.
    """

    def __init__(self, settings: RewriteSettings) -> None:
        self._settings = settings
        try:
            self._temper = Patterns(settings.auto_temper)
            clean("", settings.hygiene)
            redact("", settings.redact)
        except ConfigurationError as error:
            raise SettingsError(f"rewrite.auto_temper: {error.message}") from error
        except ValueError as error:
            raise SettingsError(f"rewrite: {error}") from error

    def edit(self, body: bytes, *, may_temper: bool) -> Changed | None:
        """The body with its changes; None when it cannot be read, and so cannot be changed. Linear.

        Changing it twice changes nothing more. Bytes outside the changed strings stay as they are.
        """
        found = places(body)
        if found is None:
            return None
        edits: list[Edit] = []
        cuts: list[tuple[int, int, bytes]] = []
        for place in found.texts:
            text = self._text(place, edits)
            if text != place.text:
                cuts.append((place.start, place.end, _string(text)))
        if may_temper and self._settings.auto_temper:
            self._temperature(body, found, edits, cuts)
        if not edits:
            return Changed(body, ())
        return Changed(_spliced(body, sorted(cuts)), tuple(edits))

    def _text(self, place: Place, edits: list[Edit]) -> str:
        text = place.text
        if place.writer == FIRST_SYSTEM:
            return text
        if self._settings.hygiene and place.writer in _CLEANED:
            cleaned, applied = clean(text, self._settings.hygiene)
            # A text that is nothing but space means nothing, and an empty one may be refused.
            if cleaned != text and cleaned.strip():
                text = cleaned
                edits.append(Edit(place.path, "hygiene", applied))
        if self._settings.redact and place.writer in _REDACTED:
            masked, found = redact(text, self._settings.redact, self._settings.redact_kept)
            if masked != text:
                text = masked
                edits.append(Edit(place.path, "redact", found))
        return text

    def _temperature(
        self, body: bytes, found: Places, edits: list[Edit], cuts: list[tuple[int, int, bytes]]
    ) -> None:
        ask = next((place.text for place in reversed(found.texts) if place.writer == USER), None)
        if (
            ask is None
            or not self._temper.matches(ask)
            or any(name in found.members for name in _NO_TEMPERATURE)
        ):
            return
        present = found.members.get("temperature")
        if present is None:
            cuts.append((found.inside, found.inside, b'"temperature":0,'))
        elif _number(body[present.start : present.end]) == 0:
            return
        else:
            cuts.append((present.start, present.end, _ZERO))
        edits.append(Edit("temperature", "temper", {"changed": 1}))


def summary(edits: tuple[Edit, ...]) -> str:
    """The value of `X-ZLRS-Rewritten`: how many changes of each kind."""
    counts: dict[str, int] = {}
    for edit in edits:
        counts[edit.what] = counts.get(edit.what, 0) + sum(edit.counts.values())
    return ";".join(f"{what}={count}" for what, count in counts.items())


def _spliced(body: bytes, cuts: list[tuple[int, int, bytes]]) -> bytes:
    parts: list[bytes] = []
    at = 0
    for start, end, text in cuts:
        parts += (body[at:start], text)
        at = end
    parts.append(body[at:])
    return b"".join(parts)


def _string(text: str) -> bytes:
    return json.dumps(text, ensure_ascii=False).encode()


def _number(text: bytes) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None
