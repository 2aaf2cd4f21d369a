"""What the Python face uses of `zlrs._core`, as protocols that a stand-in can fit too."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from os import PathLike

    from zlrs._core import Validation


class NativeGeneration(Protocol):
    """One running or queued answer; dropping it cancels it."""

    @property
    def input_tokens(self) -> int:
        """Tokens of the prompt."""

    @property
    def cached_tokens(self) -> int | None:
        """Those that need not be computed; None until work has begun and events were taken since."""

    def fileno(self) -> int:
        """An eventfd, readable while events wait."""

    def drain(self) -> Sequence[object]:
        """Events since the last call, without blocking; clears the eventfd. Raises `CoreError` on failure."""

    def wait(self, timeout_ms: int) -> Sequence[object]:
        """As `drain`, after waiting up to `timeout_ms` for the first event without the interpreter lock."""

    def cancel(self) -> None:
        """Stop as soon as the current layer is done."""


class NativePin(Protocol):
    """Keeps what is computed of some tokens."""

    @property
    def tokens(self) -> int:
        """Tokens it was made for."""

    @property
    def held(self) -> bool:
        """Whether it still holds them."""

    def release(self) -> None:
        """Let go."""


class NativeRestored(Protocol):
    """A saved state that passed all checks."""

    @property
    def fit(self) -> str:
        """`weights`, `tokenizer` or `nothing`."""

    @property
    def ids(self) -> Sequence[int]:
        """The conversation's tokens."""

    @property
    def note(self) -> bytes:
        """What was kept beside them."""

    @property
    def pin(self) -> NativePin:
        """Keeps what was taken over."""


class NativeEngine(Protocol):
    """One loaded model."""

    def info(self) -> Mapping[str, str | int | bool]:
        """Facts of the loaded model."""

    def device(self) -> tuple[str, str | None]:
        """`cpu` or the GPU's name, and why it is not a GPU if one would have been taken."""

    def governor(self) -> tuple[float, list[dict[str, float | str | None]]] | None:
        """Peak and decisions of the governor of precision, where one is in force."""

    def hardware(self) -> tuple[str, str]:
        """Mode of the hardware, and the precision of keys and values, now."""

    def parts(self) -> Sequence[tuple[int, int, int, int, int]]:
        """Of each layer: query heads, key and value heads, values of a head, bytes of both blocks."""

    def encode(self, text: str) -> list[int]:
        """Ids of a text; never a control token."""

    def decode(self, ids: Sequence[int]) -> bytes:
        """Bytes of ids."""

    def render(self, messages: Sequence[tuple[str, str]], *, add_generation_prompt: bool = True) -> list[int]:
        """Ids of (role, content) turns through the model's chat template."""

    def submit(
        self,
        ids: Sequence[int],
        *,
        max_tokens: int,
        temperature: float = 0.0,
        top_p: float = 1.0,
        top_k: int = 0,
        min_p: float = 0.0,
        repetition_penalty: float = 1.0,
        seed: int | None = None,
        stop: Sequence[str] = (),
        logit_bias: Mapping[int, float] | None = None,
        deadline_ms: int | None = None,
        priority: str = "interactive",
        tenant: bytes | None = None,
        stream_mode: str = "plain",
        compute: str = "exact",
        require_exits: bool = False,
        validation: Validation | None = None,
    ) -> NativeGeneration:
        """Queue a prompt; returns at once."""

    def pin(self, ids: Sequence[int], *, tenant: bytes | None = None, compute: str = "exact") -> NativePin:
        """Keep what requests of that kind have computed of some ids."""

    def save_state(
        self,
        path: str | PathLike[str],
        key: bytes,
        ids: Sequence[int],
        *,
        limit_bytes: int,
        note: bytes = b"",
        tenant: bytes | None = None,
    ) -> tuple[int, int]:
        """Write what is computed to a file; tokens in it and its bytes."""

    def restore_state(
        self, path: str | PathLike[str], key: bytes, *, limit_bytes: int, tenant: bytes | None = None
    ) -> NativeRestored:
        """Take a saved state back."""

    def statistics(self) -> Mapping[str, int]:
        """Counters and levels now."""

    def close(self) -> None:
        """Cancel everything and free the memory."""


class NativeDelta(Protocol):
    """New text, always whole characters."""

    text: str
    ids: list[int]


class NativeToken(Protocol):
    """The text of one token, certain or guessed."""

    index: int
    text: str
    provisional: bool


class NativeCorrection(Protocol):
    """The text of a token that was shown is another."""

    index: int
    original: str
    corrected: str


class NativeFinished(Protocol):
    """The last event of a generation."""

    reason: str
    stop_sequence: str | None
    input_tokens: int
    cached_tokens: int
    output_tokens: int
    drafted_tokens: int
    accepted_tokens: int
    seed: int
    queue_ms: float
    prefill_ms: float
    decode_ms: float
    first_token_ms: float
    kv_ms: float
    decompress_ms: float
    compute_ms: float
    io_ms: float
    compute: str
    sparse_skips: int
    row_layer_skips: int
    most_layer_skips: int
    notes: Sequence[tuple[int, str, str, str]]
