"""What an engine answers: pieces while it runs, the whole at the end."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, cast

if TYPE_CHECKING:
    from collections.abc import Iterable

    from zlrs.native import NativeCorrection, NativeDelta, NativeFinished, NativeToken

Compute = Literal["exact", "aggressive"]
FinishReason = Literal["stop", "stop_sequence", "max_tokens", "cancelled", "deadline", "context"]


@dataclass(frozen=True)
class Token:
    """The text of one token of the answer.

    A reader that keeps the latest text of every index has the answer.

    Attributes:
        index: Its place in the answer, from 0.
        text: Whole characters; what is held back for the next token is not in it. What is left of that at the
            end has the index after the last token.
        provisional: It may still change: it is a guess, and the next token that is none makes all before it
            certain, or the answer is looked at (`validation`), and what `Delta.text` brings is certain.
    """

    index: int
    text: str
    provisional: bool


@dataclass(frozen=True)
class Correction:
    """The text of a token that was shown is another; an empty one takes it back."""

    index: int
    original: str
    corrected: str


@dataclass(frozen=True)
class Delta:
    """A piece of the answer: whole characters, and the ids of the tokens that it completed.

    With a `stream_mode`, also what is new about single tokens; a piece may then have no text.
    """

    text: str
    token_ids: tuple[int, ...]
    events: tuple[Token | Correction, ...] = ()


@dataclass(frozen=True)
class Usage:
    """Counted tokens.

    Attributes:
        input_tokens: The whole prompt, template included.
        output_tokens: Those of the answer.
        cached_tokens: Those of `input_tokens` that an earlier request had computed.
        drafted_tokens: Tokens that were guessed and verified, several in one step.
        accepted_tokens: Guesses that were right: each saved a step.
        sparse_skips: Tokens for which at least one layer was left out.
        row_layer_skips: Layers left out, summed over tokens.
        most_layer_skips: Most layers left out for one token: so many of the last ones.
    """

    input_tokens: int
    output_tokens: int
    cached_tokens: int = 0
    drafted_tokens: int = 0
    accepted_tokens: int = 0
    sparse_skips: int = 0
    row_layer_skips: int = 0
    most_layer_skips: int = 0


@dataclass(frozen=True)
class Timings:
    """Where the time went, in milliseconds.

    Attributes:
        queue_ms: From the submission until work began.
        prefill_ms: From then until the first token.
        decode_ms: From the first token until the end.
        first_token_ms: From the submission until the first token.
        kv_ms: Looking up, copying, reserving and keeping blocks of KV memory.
        decompress_ms: Unpacking weights while they are needed.
        compute_ms: Steps that computed rows of this answer; answers that run together all count them.
        io_ms: Making text of tokens and handing it over.
    """

    queue_ms: float
    prefill_ms: float
    decode_ms: float
    first_token_ms: float
    kv_ms: float = 0.0
    decompress_ms: float = 0.0
    compute_ms: float = 0.0
    io_ms: float = 0.0


@dataclass(frozen=True)
class Note:
    """What the validation ring marked in an answer.

    Attributes:
        index: Of the first token.
        by: `numbers`, `repetition`, `head`, or the rule's name.
        text: What was marked.
        outcome: `redone` (decoded again from there), `in_source` (it stands there), `nothing_to_copy`,
            `beyond_ring` (it was sent already), `left` (it was decoded again as often as allowed, or no copy
            fits into what is left of `max_tokens`).
    """

    index: int
    by: str
    text: str
    outcome: str


@dataclass(frozen=True)
class Completion:
    """A finished answer.

    Attributes:
        text: All of it, without the stop sequence.
        token_ids: Ids of the generated tokens that the text came from.
        finish_reason: `stop` (the model ended), `stop_sequence`, `max_tokens`, `context` (the window is
            full), `cancelled` or `deadline`.
        stop_sequence: Which one ended it.
        usage: Counted tokens.
        seed: The one that was used; drawn where none was given. The same seed gives the same text.
        timings: Milliseconds by part.
        compute: How it was computed; `exact` also where nothing is installed that `aggressive` leaves out.
        notes: What the validation ring marked, where it was asked to.
    """

    text: str
    token_ids: tuple[int, ...]
    finish_reason: FinishReason
    stop_sequence: str | None
    usage: Usage
    seed: int
    timings: Timings
    compute: Compute = "exact"
    notes: tuple[Note, ...] = ()


@dataclass(frozen=True)
class Finish:
    """The end of a stream: a `Completion` without its text."""

    finish_reason: FinishReason
    stop_sequence: str | None
    usage: Usage
    seed: int
    timings: Timings
    compute: Compute = "exact"
    notes: tuple[Note, ...] = ()

    def with_deltas(self, deltas: Iterable[Delta]) -> Completion:
        """Join the pieces to the whole."""
        pieces = list(deltas)
        return Completion(
            text="".join(piece.text for piece in pieces),
            token_ids=tuple(token for piece in pieces for token in piece.token_ids),
            finish_reason=self.finish_reason,
            stop_sequence=self.stop_sequence,
            usage=self.usage,
            seed=self.seed,
            timings=self.timings,
            compute=self.compute,
            notes=self.notes,
        )


def event_from_native(event: object) -> Delta | Finish:
    """Turn an event of the native module into ours."""
    if hasattr(event, "reason"):
        end = cast("NativeFinished", event)
        return Finish(
            finish_reason=cast("FinishReason", end.reason),
            stop_sequence=end.stop_sequence,
            usage=Usage(
                end.input_tokens,
                end.output_tokens,
                end.cached_tokens,
                end.drafted_tokens,
                end.accepted_tokens,
                end.sparse_skips,
                end.row_layer_skips,
                end.most_layer_skips,
            ),
            seed=end.seed,
            timings=Timings(
                end.queue_ms,
                end.prefill_ms,
                end.decode_ms,
                end.first_token_ms,
                end.kv_ms,
                end.decompress_ms,
                end.compute_ms,
                end.io_ms,
            ),
            compute=cast("Compute", end.compute),
            notes=tuple(Note(*note) for note in end.notes),
        )
    if hasattr(event, "provisional"):
        shown = cast("NativeToken", event)
        return Delta("", (), (Token(shown.index, shown.text, shown.provisional),))
    if hasattr(event, "corrected"):
        other = cast("NativeCorrection", event)
        return Delta("", (), (Correction(other.index, other.original, other.corrected),))
    piece = cast("NativeDelta", event)
    return Delta(piece.text, tuple(piece.ids))
