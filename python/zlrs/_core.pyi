# ruff: noqa: PYI021 (editors show these docstrings)
"""The native module, described by hand; `python -m mypy.stubtest zlrs._core` holds it to the binary."""

from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from typing import final

# --- build ------------------------------------------------------------------------------------------------

def build_info() -> dict[str, str]:
    """Facts about this build and machine.

    Keys: version, profile, revision, isa, isa_available, features, numerics_version.
    """

# --- errors -----------------------------------------------------------------------------------------------

class CoreError(Exception):
    """An error of the native module."""

    type: str
    """Its name in the catalogue."""
    message: str
    """What is wrong, the limit, what was given, what to do."""

# --- engine -----------------------------------------------------------------------------------------------

@final
class Engine:
    """A loaded model. Safe to use from several threads; not after a fork.

    Every method may raise `CoreError`. After a fork `submit`, `statistics` and the methods of `Generation`
    raise it with the type `engine_closed`.
    """

    @staticmethod
    def load(
        path: str | PathLike[str],
        *,
        threads: int | None = None,
        context_tokens: int | None = None,
        kv_bytes: int | None = None,
        queue_limit: int = 64,
        progress: Callable[[int, int], object] | None = None,
    ) -> Engine:
        """Read a GGUF file and start the engine thread.

        Args:
            path: The file.
            threads: Threads that compute, 1 to 512; by default as many as the process may use.
            context_tokens: Longest prompt and answer together, 2 to the model's own window (the default).
            kv_bytes: Hard limit of the KV memory; by default what one sequence of `context_tokens` needs.
            queue_limit: Most requests that may wait, at least 1.
            progress: Called with bytes done and in all, at most twenty times a second. What it raises is
                raised after the load.
        """

    def info(self) -> dict[str, str | int | bool]:
        """Facts of the loaded model. The first call sums the file.

        Keys: name, architecture, quantization, file_sha256, file_bytes, vocabulary, context_tokens, threads,
        isa, numerics_version, layers, has_chat_template, kv_bytes.
        """

    def encode(self, text: str) -> list[int]:
        """Tokens of a plain prompt; begins with the model's BOS where the model asks for one."""

    def decode(self, ids: Sequence[int]) -> bytes:
        """The bytes that tokens stand for, not always whole characters; control tokens by their spelling."""

    def render(self, messages: Sequence[tuple[str, str]], *, add_generation_prompt: bool = True) -> list[int]:
        """Tokens of a conversation of (role, content) pairs in the model's chat template.

        What is in the messages never becomes control tokens.
        """

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
        stop: Sequence[str] = ...,
        logit_bias: Mapping[int, float] | None = None,
        deadline_ms: int | None = None,
    ) -> Generation:
        """Queue a generation and return at once.

        Args:
            ids: Tokens of the prompt, at least one.
            max_tokens: Most tokens to generate, at least 1; clipped to what the window leaves.
            temperature: 0 is greedy; up to 2.
            top_p: Keep the most likely tokens up to this sum, greater than 0; 1 is off.
            top_k: Keep so many most likely tokens; 0 is off.
            min_p: Keep tokens at least this fraction as likely as the likeliest, less than 1; 0 is off.
            repetition_penalty: 0.1 to 10; 1 is off.
            seed: Key of the draws, 0 to 2**64 - 1; a drawn one is reported.
            stop: At most 64 texts of at most 1024 bytes that end the answer and are not part of it.
            logit_bias: Token id to addition, -100 to 100, at most 1024 entries.
            deadline_ms: Time from now after which the answer ends with what it has.
        """

    def statistics(self) -> dict[str, int]:
        """Counts so far.

        Keys: queued, running, kv_blocks_used, kv_blocks_total, kv_blocks_peak, requests, finished, cancelled,
        failed, tokens_prefilled, tokens_decoded, steps, recoveries.
        """

    def close(self) -> None:
        """End the engine thread, free weights and KV memory; what runs or waits fails (`engine_closed`)."""

@final
class Generation:
    """One queued or running answer. Dropping it cancels it."""

    @property
    def input_tokens(self) -> int:
        """Tokens of the prompt."""

    def fileno(self) -> int:
        """An eventfd that is readable while events wait; only for polling."""

    def drain(self) -> list[Delta | Finished]:
        """The events that wait, without blocking. Raises `CoreError` when the answer has failed."""

    def wait(self, timeout_ms: int) -> list[Delta | Finished]:
        """As `drain`, waiting up to `timeout_ms` for the first event without the interpreter lock."""

    def cancel(self) -> None:
        """End the answer; its last event says `cancelled`."""

@final
class Delta:
    """More of the answer."""

    @property
    def text(self) -> str:
        """Whole characters."""

    @property
    def ids(self) -> list[int]:
        """Tokens generated since the last delta."""

@final
class Finished:
    """The end of an answer that did not fail."""

    @property
    def reason(self) -> str:
        """`stop`, `stop_sequence`, `max_tokens`, `context`, `cancelled` or `deadline`."""

    @property
    def stop_sequence(self) -> str | None:
        """The stop sequence that came."""

    @property
    def input_tokens(self) -> int:
        """Tokens of the prompt."""

    @property
    def output_tokens(self) -> int:
        """Tokens generated; the token that ended the turn is not counted."""

    @property
    def seed(self) -> int:
        """The seed in use, drawn or given."""

    @property
    def queue_ms(self) -> float:
        """From submission until work began."""

    @property
    def prefill_ms(self) -> float:
        """From the beginning of work until the first token."""

    @property
    def decode_ms(self) -> float:
        """From the first token until the end."""

    @property
    def first_token_ms(self) -> float:
        """From submission until the first token; 0 if there was none."""
