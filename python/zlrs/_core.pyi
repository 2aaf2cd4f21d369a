# ruff: noqa: PYI021 (editors show these docstrings)
"""The native module, described by hand; `python -m mypy.stubtest zlrs._core` holds it to the binary."""

from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from typing import final

__all__ = [
    "CoreError",
    "Correction",
    "Decision",
    "Delta",
    "Engine",
    "ExitHeads",
    "ExitTrainer",
    "Finished",
    "Generation",
    "Graph",
    "GraphFiles",
    "Mask",
    "Meter",
    "Neurons",
    "Patterns",
    "Pin",
    "RestoredState",
    "RingHead",
    "RingTeacher",
    "Token",
    "Tokenizer",
    "Validation",
    "answer_pairs",
    "answer_plain",
    "build_info",
    "clean_text",
    "compare_answers",
    "error_catalogue",
    "error_classes",
    "fingerprint_quality",
    "gpu_info",
    "gpu_measure",
    "gpu_self_test",
    "header_names",
    "mask_personal",
    "perplexity",
    "reasons",
    "repeat_decision",
    "share_limit",
    "shipped_fingerprint",
    "text_names",
    "text_places",
    "train_fingerprint",
    "verify_audit",
    "wording_cosine",
]

# --- build ------------------------------------------------------------------------------------------------

def build_info() -> dict[str, str]:
    """Facts about this build and machine.

    Keys: version, profile, revision, isa, isa_available, features, numerics_version.
    """

def gpu_info() -> dict[str, str]:
    """What GPU there is.

    Keys: found (`yes` or `no`); name, capability, memory_bytes, or reason.
    """

def gpu_measure(heads: int, kv_heads: int, head_dim: int, depth: int, rows: int) -> dict[str, float]:
    """What a layer's attention of one row over `depth` positions takes on the GPU, and an exit head.

    Returns:
        fused_s, unfused_s (three passes over memory), exit_head_s (`rows` rows), bytes that attention reads.

    Raises:
        CoreError: There is no GPU, or no such shape.
    """

def gpu_self_test() -> None:
    """Run the kernels on the GPU against their references.

    Raises:
        CoreError: There is no GPU, or a kernel gives other bits.
    """

# --- errors -----------------------------------------------------------------------------------------------

class CoreError(Exception):
    """An error of the native module."""

    type: str
    """Its name in the catalogue."""
    message: str
    """What is wrong, the limit, what was given, what to do."""

# --- wire -------------------------------------------------------------------------------------------------

def error_catalogue() -> list[tuple[str, int, str]]:
    """Every error type: name, HTTP status (0 for what is never sent), when it is raised."""

def error_classes() -> list[tuple[str, str, str, str | None]]:
    """What the class of each error type must say: type, class name, suggestion, code."""

def header_names() -> list[tuple[str, str | None]]:
    """Every header of ours: canonical and historical spelling."""

def reasons() -> list[tuple[str, str]]:
    """Every reason why something is not served or not stored: its name and what it means."""

# --- texts ------------------------------------------------------------------------------------------------

def text_places(
    body: bytes,
) -> tuple[list[tuple[str, str, int, int, str]], list[tuple[str, int, int]], int] | None:
    """Where the texts of a body stand; None where the strict reading refuses it.

    The texts (path, writer, start, end, text), the members of the outermost object (name, start, end), and
    where that object's inside begins.
    """

def clean_text(text: str, rules: Sequence[str]) -> tuple[str, dict[str, int]]:
    """A text cleaned by the named rules, and how much each took away. ValueError: there is no such rule."""

def mask_personal(text: str, kinds: Sequence[str], mark: str, kept: int) -> tuple[str, dict[str, int]]:
    """A text with its personal numbers masked, and how many there were. ValueError: no such kind."""

def text_names() -> tuple[list[tuple[str, bool]], list[str]]:
    """All hygiene rules with whether each is on by default, and all kinds of personal numbers."""

# --- what the sidecar needs of the core -------------------------------------------------------------------

@final
class Patterns:
    """Regular expressions that are searched together, in time linear in the text."""

    def __new__(cls, patterns: Sequence[str]) -> Patterns:
        """Compile; ValueError: look-around, a back reference, or too large."""

    def matches(self, text: str) -> list[int]:
        """Which patterns are found in a text, by their place in the list."""

@final
class Tokenizer:
    """The tokenizer of a model file, without its weights."""

    def __new__(cls, path: str | PathLike[str]) -> Tokenizer:
        """Read the vocabulary of a GGUF file. Raises `CoreError` (`model_invalid`)."""

    def count(self, text: str) -> int:
        """How many tokens a text has."""

def perplexity(
    path: str | PathLike[str],
    text: str,
    *,
    threads: int | None = None,
    window_tokens: int = 512,
    windows: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> dict[str, int | float]:
    """How well a model predicts a text; windows are scored in their second half.

    Args:
        path: A GGUF file.
        text: At least one window of it.
        threads: Those that compute; absent, as many as the process may use.
        window_tokens: Tokens of a window.
        windows: At most this many; absent, all that the text fills.
        progress: Called with windows done and in all.

    Returns:
        perplexity and its standard error, mean_loss, scored_tokens, windows.

    Raises:
        CoreError: For the file (`model_…`), an option out of range or a short text (`configuration_error`).
    """

def verify_audit(path: str | PathLike[str], key: str | None = None) -> dict[str, int]:
    """Check a chain of the audit log.

    Args:
        path: The chain's file.
        key: The public key it must be signed with, 64 hexadecimal digits; absent, the one in its first line.

    Returns:
        records, signed_records, dropped_records, and 0 or 1 for ended and cut_line.

    Raises:
        CoreError: `conflict_error` names the first bad record; `not_found_error` when it cannot be read.
    """

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
        chunk_tokens: int = 256,
        drafting: str = "auto",
        device: str = "cpu",
        kv_precision: str = "f16",
        governor_policy: str = "idle",
        thermal_limit_c: int = 75,
        mask: Mask | None = None,
        mask_fallback: bool = False,
        self_drafting: str = "off",
        draft_mask: Mask | None = None,
        draft_vocabulary: int = 32768,
        exits: ExitHeads | None = None,
        neurons: Neurons | None = None,
        progress: Callable[[int, int], object] | None = None,
    ) -> Engine:
        """Read a GGUF file and start the engine thread.

        Args:
            path: The file.
            threads: Threads that compute, 1 to 512; by default as many as the process may use.
            context_tokens: Longest prompt and answer together, 2 to the model's own window (the default).
            kv_bytes: Hard limit of the KV memory; by default what one sequence of `context_tokens` needs.
            queue_limit: Most requests that may wait, at least 1.
            chunk_tokens: Most prompt tokens computed in one step, 1 to 256; answers do not depend on it.
            drafting: `off`, `auto` or `always`: whether tokens are guessed, to verify several in one step;
                answers do not depend on it. `auto` guesses as far as it pays.
            device: `cpu`; `cuda`, the first GPU; or `auto`, a GPU if one can be used.
            kv_precision: How a GPU keeps keys and values of aggressive requests: `f16`; `q8` or `q4`, which
                change answers; or `governed`: `q4` or `f16` by the load of its memory and its temperature.
            governor_policy: `idle` or `saturated`: when the governor chooses `q4`.
            thermal_limit_c: Temperature from which on the governor changes nothing.
            mask: Parts of the model to leave out: they get no weights, no KV memory and are not computed.
            mask_fallback: Load the full model when mask or exit heads are for other weights, in place of an
                error.
            self_drafting: `off`, `auto` or `always`: whether the model guesses by itself where `drafting` has
                nothing, with the parts that `draft_mask` leaves; answers do not depend on it. Processor only.
            draft_mask: Parts that are not computed while the model guesses.
            draft_vocabulary: Only the first so many tokens are guessed by the model, at least 1.
            exits: Where rows of aggressive requests may leave before the last layer.
            neurons: Thresholds under which neurons count for nothing in rows of aggressive requests.
            progress: Called with bytes done and in all, at most twenty times a second. What it raises is
                raised after the load.
        """

    def device(self) -> tuple[str, str | None]:
        """`cpu` or the GPU's name, and why it is not a GPU if one would have been taken."""

    def hardware(self) -> tuple[str, str]:
        """Mode of the hardware (`cpu`, `cuda`, the governor's), and the precision of keys and values."""

    def governor(self) -> tuple[float, list[dict[str, float | str | None]]] | None:
        """The peak in bytes a second and the last 256 decisions; nothing without a governor.

        Keys of a decision: reading, step, hardware_mode, kv_precision, demand_share, achieved_share,
        temperature_c, clock_mhz, memory_clock_mhz.
        """

    def info(self) -> dict[str, str | int | bool]:
        """Facts of the loaded model. The first call sums the file.

        Keys: name, architecture, quantization, file_sha256, file_bytes, vocabulary, context_tokens, threads,
        isa, device, kv_precision, numerics_version, layers, has_chat_template, kv_bytes, weight_bytes,
        zero_heads
        (`LAYER.HEAD,…`), mask_sum (empty without a mask), and mask: `none`, `used`, or why it was left aside.
        """

    def parts(self) -> list[tuple[int, int, int, int, int]]:
        """Of each layer: query heads, key and value heads, values of a head, bytes of both blocks."""

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
        priority: str = "interactive",
        tenant: bytes | None = None,
        stream_mode: str = "plain",
        compute: str = "exact",
        require_exits: bool = False,
        validation: Validation | None = None,
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
            priority: `interactive`, or `batch`, which makes way for it.
            tenant: 32 bytes. Answers share computed prefixes and compete for the machine by tenant.
            stream_mode: `plain`; `verified`, tells every verified token; `provisional`, guesses too.
            compute: `exact`, or `aggressive`: what is installed may leave out work; with nothing installed
                it is exact, and the last event says so.
            require_exits: Refuse the request where no exit heads are installed or `compute` is not
                `aggressive`, and fail it where rows flap between leaving and staying.
            validation: What is looked for in the answer; where it is likely wrong it is decoded again.
        """

    def pin(self, ids: Sequence[int], *, tenant: bytes | None = None, compute: str = "exact") -> Pin:
        """Keep what such requests have computed of a tenant's ids until the pin is released or dropped.

        A pin is a wish: a request that fits in no other way makes the least recently used one let go.
        """

    def save_state(
        self,
        path: str | PathLike[str],
        key: bytes,
        ids: Sequence[int],
        *,
        limit_bytes: int,
        note: bytes = ...,
        tenant: bytes | None = None,
    ) -> tuple[int, int]:
        """Write what is computed of some ids to a file, which is there complete or not at all.

        Args:
            path: The file; only its owner can read it.
            key: 32 secret bytes that seal it.
            ids: The conversation's tokens.
            limit_bytes: Longest file; keys and values beyond it are left out.
            note: Kept beside them, at most 16 MiB.
            tenant: Whose it is; nobody else gets it back.

        Returns:
            Tokens whose keys and values are in the file, and its bytes.
        """

    def restore_state(
        self, path: str | PathLike[str], key: bytes, *, limit_bytes: int, tenant: bytes | None = None
    ) -> RestoredState:
        """Take a saved state back, its keys and values where weights and arithmetic are the same.

        Raises `CoreError`: `kv_corrupt` for a file that is not what was saved with this key,
        `session_forbidden` for another tenant's, `session_expired` when there is none.
        """

    def statistics(self) -> dict[str, int]:
        """Counts so far.

        Keys: queued, running, kv_blocks_used, kv_blocks_cached, kv_blocks_total, kv_blocks_peak, requests,
        finished, cancelled, failed, tokens_prefilled, tokens_reused, tokens_decoded, steps,
        kv_blocks_evicted, pauses, recoveries, backend_lost.
        """

    def close(self) -> None:
        """End the engine thread, free weights and KV memory; what runs or waits fails (`engine_closed`)."""

@final
class Pin:
    """Keeps what has been computed of some tokens."""

    @property
    def tokens(self) -> int:
        """Tokens it was made for."""

    @property
    def held(self) -> bool:
        """Whether it still holds them."""

    def release(self) -> None:
        """Let go. May be called again."""

@final
class RestoredState:
    """A saved state that passed all checks."""

    @property
    def fit(self) -> str:
        """`weights`: taken over; `tokenizer`: to be computed again; `nothing`: only the note is of use."""

    @property
    def ids(self) -> list[int]:
        """The conversation's tokens, in the tokenizer it was made with."""

    @property
    def note(self) -> bytes:
        """What was kept beside them."""

    @property
    def pin(self) -> Pin:
        """Keeps what was taken over."""

@final
class Generation:
    """One queued or running answer. Dropping it cancels it."""

    @property
    def input_tokens(self) -> int:
        """Tokens of the prompt."""

    @property
    def cached_tokens(self) -> int | None:
        """Tokens of the prompt that need not be computed; None until work begins.

        The beginning is an event too: it wakes `fileno()`, and shows after `drain` or `wait`, which return
        nothing for it.
        """

    def fileno(self) -> int:
        """An eventfd that is readable while events wait; only for polling."""

    def drain(self) -> list[Delta | Token | Correction | Finished]:
        """The events that wait, without blocking. Raises `CoreError` when the answer has failed."""

    def wait(self, timeout_ms: int) -> list[Delta | Token | Correction | Finished]:
        """As `drain`, waiting up to `timeout_ms` for the first event without the interpreter lock.

        May return nothing before that: when work begins.
        """

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
class Token:
    """The text of one token, certain or guessed."""

    @property
    def index(self) -> int:
        """Its place in the answer, from 0."""

    @property
    def text(self) -> str:
        """Whole characters."""

    @property
    def provisional(self) -> bool:
        """Whether it may still change."""

@final
class Correction:
    """The text of a token that was shown is another."""

    @property
    def index(self) -> int:
        """Its place in the answer."""

    @property
    def original(self) -> str:
        """What was shown."""

    @property
    def corrected(self) -> str:
        """What it is; empty where a guess is taken back."""

@final
class RingHead:
    """A re-scoring head that was read and checked."""

    def __new__(cls, data: bytes) -> RingHead:
        """Read a safetensors file of at most 384 KiB. Raises `CoreError` for anything else."""

    @property
    def width(self) -> int:
        """Values of the model's state that it reads."""

    @property
    def weights(self) -> int:
        """Numbers in it."""

    @property
    def threshold(self) -> float:
        """The score from which on a token is marked."""

    @property
    def metadata(self) -> dict[str, str]:
        """What its file says of it; `model_sha256` is always there."""

@final
class Validation:
    """What is looked for in answers."""

    def __new__(
        cls,
        *,
        reach_tokens: int,
        rules: Sequence[tuple[str, str, str, int]] = ...,
        numbers: bool = False,
        repetition: bool = False,
        head: RingHead | None = None,
    ) -> Validation:
        """Look for these.

        Args:
            reach_tokens: Text is held back until so many more tokens have come.
            rules: Name, pattern, what must follow it, within so many bytes and a line; linear-time patterns.
            numbers: Mark numbers that the prompt does not have.
            repetition: Mark runs of tokens that come three times in a row.
            head: Scores tokens.
        """

    def with_head(self, *, reach_tokens: int, head: RingHead | None = None) -> Validation:
        """The same with another reach, and another head if one is given."""

    @property
    def is_empty(self) -> bool:
        """Whether it looks for nothing."""

@final
class RingTeacher:
    """A model that reads answers with known faults, and the samples made of them."""

    @staticmethod
    def load(path: str | PathLike[str], *, window_tokens: int, threads: int | None = None) -> RingTeacher:
        """Load a model for sources and answers of up to `window_tokens` together."""

    @property
    def model_sha256(self) -> str:
        """SHA-256 of the model file, in hexadecimal digits."""

    def read(self, group: str, source: str, answer: str, wrong: Sequence[tuple[int, int]]) -> int:
        """Read an answer about a source and add its tokens to a group.

        Args:
            group: Name of the group.
            source: Text before the answer.
            answer: The answer.
            wrong: Where it is wrong, from and to byte of its UTF-8.

        Returns:
            Tokens added; 0 where the two do not fit the window.
        """

    def count(self, group: str) -> tuple[int, int]:
        """Tokens of a group, and how many of them are wrong."""

    def fit(
        self,
        group: str,
        held: str,
        *,
        hidden: int,
        epochs: int,
        false_alarms: float,
        int8: bool = False,
        metadata: Mapping[str, str] = ...,
    ) -> bytes:
        """Fit a head to a group; its file.

        Args:
            group: What it learns from.
            held: Where its threshold is set.
            hidden: Hidden units.
            epochs: Passes over the tokens.
            false_alarms: Share of the right tokens of `held` that may be marked.
            int8: Write the large tensors in int8.
            metadata: For the file.
        """

    def judge(self, group: str, head: RingHead) -> tuple[float, float, float, float] | None:
        """Areas under the curves of the head and of -ln p; shares of wrong and right tokens marked."""

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
    def cached_tokens(self) -> int:
        """Tokens of the prompt that were not computed, because an earlier request had computed them."""

    @property
    def output_tokens(self) -> int:
        """Tokens generated; the token that ended the turn is not counted."""

    @property
    def drafted_tokens(self) -> int:
        """Tokens that were guessed and verified."""

    @property
    def accepted_tokens(self) -> int:
        """Guesses that were right: each saved a step."""

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

    @property
    def kv_ms(self) -> float:
        """Looking up, copying, reserving and keeping blocks of KV memory."""

    @property
    def decompress_ms(self) -> float:
        """Unpacking weights while they are needed."""

    @property
    def compute_ms(self) -> float:
        """Steps that computed rows of this answer; requests that run together all count them."""

    @property
    def io_ms(self) -> float:
        """Making text of tokens and handing it over."""

    @property
    def compute(self) -> str:
        """How it was computed: `exact` or `aggressive`."""

    @property
    def sparse_skips(self) -> int:
        """Tokens for which at least one layer was left out."""

    @property
    def row_layer_skips(self) -> int:
        """Layers left out, summed over tokens."""

    @property
    def most_layer_skips(self) -> int:
        """Most layers left out for one token: so many of the last ones."""

    @property
    def notes(self) -> list[tuple[int, str, str, str]]:
        """What was marked: index of the first token, by what, its text, what became of it."""

# --- decision graph ---------------------------------------------------------------------------------------

def answer_plain(
    graph: Graph,
    data: bytes,
    hosts: Sequence[bytes],
    upstream: str,
    now_ms: int,
    date: str,
    receipts: bool,
) -> tuple[Decision | None, bytes | None, bytes | None] | None:
    """The decision about a request that is here whole and plain; None where it needs a wait or is not plain.

    For a hit also what to send, and what is equal for answers that are.
    """

@final
class Graph:
    """A decision graph. Safe to use from several threads; not after a fork."""

    def __new__(
        cls,
        path: str | PathLike[str] | None,
        settings: bytes,
        remote: tuple[list[str], bool, int, str, str | None, str | None] | None = None,
    ) -> Graph:
        """Open the graph of a directory, or one in memory.

        A store that cannot be used is no error: the graph is then in bypass and `state` says why.

        Args:
            path: A directory of the graph's own; None keeps everything in memory.
            settings: One JSON object, as `zlrs.graph.GraphSettings` makes it. Raises `CoreError`
                (`configuration_error`) for unknown keys and values out of range.
            remote: Addresses, Cluster or not, deadline in milliseconds, prefix, user, password.
        """

    def decide(
        self,
        method: str,
        path: str,
        query: str,
        headers: Sequence[tuple[bytes, bytes]],
        body: bytes,
        upstream: str,
        now_ms: int,
        factors: Sequence[tuple[str, str]] | None = None,
        unknown_factor: str | None = None,
    ) -> Decision:
        """Decide about a request. Waits for the store a few milliseconds at most.

        Args:
            method: The request method.
            path: The path as it was sent, without the query.
            query: The query as it was sent, without the question mark.
            headers: All request headers, in order.
            body: The body, without content encoding.
            upstream: The upstream's name or base URL, from configuration.
            now_ms: Unix time in milliseconds.
            factors: Names and values of the operator's facts, each name once.
            unknown_factor: The name of a fact that is not known: the request is not eligible.
        """

    def decide_now(
        self,
        method: str,
        path: str,
        query: str,
        headers: Sequence[tuple[bytes, bytes]],
        body: bytes,
        upstream: str,
        now_ms: int,
        factors: Sequence[tuple[str, str]] | None = None,
        unknown_factor: str | None = None,
    ) -> Decision | None:
        """`decide` without a wait; None where something has to be read first."""

    def settle(
        self,
        decision: Decision,
        status: int,
        headers: Sequence[tuple[bytes, bytes]],
        body: bytes,
        complete: bool,
        now_ms: int,
    ) -> str:
        """Take in the upstream's answer: `stored`, or the reason why it is not kept.

        Call it for every answer to a forwarded request, whatever was decided: its status says whether the
        credential is good. Blocks up to a second without the interpreter lock.

        Args:
            decision: What was decided about the request.
            status: The answer's status.
            headers: All headers of the answer, in order.
            body: The body, without content encoding.
            complete: Whether the upstream ended the answer properly.
            now_ms: Unix time in milliseconds when it ended.
        """

    def withdraw(self, decision: Decision, now_ms: int, reason: str) -> None:
        """Make sure that the stored answer to this request is never served again; durable on return."""

    def note_changes(self, decision: Decision, changes: str) -> None:
        """Add to the audit log what was changed in a request before it was decided about.

        `changes` is JSON without any text of the request; ValueError when it is not JSON.
        """

    def import_entry(self, line: str, trusted: str, now_ms: int) -> str:
        """Takes in a line of an export that `trusted` has signed: `stored`, or why not."""

    def purge(self, what: str = "all", which: str = "") -> int:
        """Remove entries; returns how many.

        Args:
            what: `all`, `tenant`, `scope`, `node`, `entry`, `written_before` or `expired`.
            which: The name, 64 hexadecimal digits, or Unix milliseconds. ValueError when it is neither.
        """

    def appoint(
        self, judge: Callable[..., str] | None, name: str = "", false_equivalent: float | None = None
    ) -> None:
        """Appoint a judge for answers that the rules cannot compare; None dismisses it.

        Args:
            judge: A callable of the ask and two answers: `equivalent`, `different` or `unsure`. It is called
                in the threads that settle; whatever else it does is no verdict.
            name: Its name and version.
            false_equivalent: The upper limit of its error, as measured; without one it changes nothing.
        """

    def note_load(self, load: float) -> None:
        """Note the load, 0 to 1: it moves how far the edge route looks, and nothing else."""

    def pools(self) -> str:
        """What trials have shown, by class, with the bound of each: a JSON array."""

    def flush(self) -> None:
        """Wait until everything settled before is committed and the audit log is signed."""

    def state(self) -> str:
        """`ready`, or `bypass: ` and the reason."""

    def stats(self) -> dict[str, int]:
        """Counters since opening and present sizes.

        Keys: hits, misses, skipped, stored, refused, entries, bytes, cached_bodies, cached_bytes,
        lookups_found, lookups_absent, lookups_slow, lookups_behind, corrupt, committed, dropped, evicted,
        tombstones, untold, audit_records, audit_dropped.
        """

    def notices(self) -> list[str]:
        """Lines for the operator's log since the last call."""

    def close(self) -> None:
        """Commit and sign what waits, and stop the threads."""

@final
class Decision:
    """What was decided about one request."""

    @property
    def kind(self) -> str:
        """`hit`, `miss` or `skipped`."""

    @property
    def route(self) -> str:
        """`same`; empty for a skipped request."""

    @property
    def reason(self) -> str:
        """Why not; empty for a hit."""

    @property
    def node(self) -> str:
        """The node, 64 hexadecimal digits; empty for a skipped request."""

    @property
    def protocol(self) -> str:
        """`messages`, `chat` or `other`."""

    @property
    def stream(self) -> bool:
        """Whether an event stream is asked for."""

    @property
    def model(self) -> str:
        """The model asked for; empty where the request is not understood."""

    @property
    def header(self) -> str:
        """The value of `X-ZLRS-Decision`."""

    @property
    def audit(self) -> str:
        """The id of the audit record; empty without an audit log."""

    @property
    def content_type(self) -> str:
        """The media type of what `replay` gives."""

    @property
    def recheck(self) -> bool:
        """For a hit: ask upstream again off the client's time, and settle its answer with this decision."""

    @property
    def age_ms(self) -> int | None:
        """For a hit, how old the stored answer is."""

    def replay(self) -> list[bytes]:
        """For a hit, what to send: one JSON body, or one piece per event. Empty for anything else."""

@final
class GraphFiles:
    """The directory of a decision graph, looked at without opening the graph. Raises `CoreError`."""

    def __new__(cls, path: str | PathLike[str]) -> GraphFiles:
        """Name a directory and make sure that it holds a graph."""

    def public_key(self) -> str:
        """The key that entries and chains are signed with, 64 hexadecimal digits."""

    def export(self) -> list[str]:
        """Every entry with its answer, one JSON text each."""

    def entries(self, prefix: str, limit: int) -> str:
        """Entries whose key, node, scope or tenant begins with these digits, oldest first: a JSON array."""

    def pools(self) -> str:
        """As `Graph.pools`."""

    def records(self, audit_id: str) -> str:
        """The audit records of a decision and about it: a JSON array."""

    def verify(self) -> str:
        """Check every signature, hash, seal and chain: a JSON object with counts and the faults by name."""

def repeat_decision(body: str) -> tuple[str, str]:
    """Decide again from an audit record's body (JSON): what was recorded, what its inputs give now."""

# --- fingerprints and judges ------------------------------------------------------------------------------

def wording_cosine(one: str, other: str) -> float | None:
    """How near two wordings are by the shipped fingerprint, -1 to 1; None where one has no fingerprint."""

def shipped_fingerprint() -> bytes:
    """The file of the fingerprint that ships with this build."""

def train_fingerprint(
    samples: Sequence[tuple[str, str]],
    seed: int,
    steps: int,
    threads: int,
    report: Callable[[int, float], None],
) -> bytes:
    """Train on (text, label) pairs and the generated ones; returns the file.

    Args:
        samples: Texts of one label are wordings of one question.
        seed: Everything random comes from it.
        steps: Of 128 texts each.
        threads: They change the time and nothing else.
        report: Called with the step and the mean loss every hundred steps; what it raises ends the training.
    """

def fingerprint_quality(
    file: bytes,
    known: Sequence[tuple[str, str]],
    held_out: Sequence[tuple[str, str]],
    thresholds: Sequence[float],
) -> tuple[int, float, list[tuple[float, float, float]]]:
    """What a fingerprint file is worth on held-out (text, label) pairs beside known ones.

    Returns how many there are, the share whose nearest known text asks the same, and (threshold, recall,
    precision) for each threshold.
    """

def answer_pairs(same: bool) -> list[tuple[str, str, str]]:
    """Generated pairs of answers, (ask, one, other): those that say the same, or those that do not."""

def compare_answers(ask: str, one: str, other: str) -> str:
    """What the rules alone say of two answers: `agree`, `contradict` or `undecided`."""

def share_limit(seen: int, of: int) -> float:
    """The 95 % upper limit of a share of which `seen` were seen in `of` trials."""

# --- masks ------------------------------------------------------------------------------------------------

@final
class Mask:
    """Which parts of one model file are left out. Methods that change something give a new mask."""

    @staticmethod
    def from_bytes(data: bytes) -> Mask:
        """Read the bytes of a mask file; `configuration_error` for anything else."""

    def to_bytes(self) -> bytes:
        """The bytes of the file."""

    @property
    def weights_sha256(self) -> str:
        """SHA-256 of the model file it was made for."""

    @property
    def calibration_sha256(self) -> str:
        """SHA-256 over the texts it was measured on; zeros for none."""

    @property
    def report(self) -> str:
        """What was measured, as JSON; `{}` for nothing."""

    @property
    def width(self) -> int:
        """Values of a hidden state."""

    def layers(self) -> list[tuple[bool, bool, list[bool], int, list[int], bool, bool]]:
        """The parts of each layer.

        Returns:
            Attention, MLP and query heads (`True` is left out), key and value heads in the file, those left
            out, and whether a constant stands in for attention and for the MLP.
        """

    def without(self, layer: int, part: str, constant: Sequence[float] | None = None) -> Mask:
        """Leave out a layer's block, `attention` or `mlp`; a constant of `width` values may stand in."""

    def without_heads(self, layer: int, heads: Sequence[int]) -> Mask:
        """Leave out some query heads."""

    def measured(self, report: str, calibration_sha256: bytes) -> Mask:
        """The same parts with what was measured of them."""

    def for_weights(self, weights_sha256: bytes) -> Mask:
        """The same parts for another file."""

@final
class ExitHeads:
    """Where rows of aggressive requests may leave before the last layer of one model file."""

    @staticmethod
    def from_bytes(data: bytes) -> ExitHeads:
        """Read the bytes of a file. Raises `CoreError` for anything that is not one, bit for bit."""

    def to_bytes(self) -> bytes:
        """The bytes of the file."""

    @property
    def weights_sha256(self) -> str:
        """SHA-256 of the model file they were trained for."""

    @property
    def calibration_sha256(self) -> str:
        """SHA-256 over the texts they were trained and tested on."""

    @property
    def report(self) -> str:
        """What was measured, as JSON."""

    @property
    def layers(self) -> int:
        """Layers of the model."""

    @property
    def is_active(self) -> bool:
        """Whether any row may ever leave."""

    def probes(self) -> list[tuple[int, float | None]]:
        """The layers that rows may leave before, and the threshold there; nobody leaves without one."""

    def measured(self, report: str) -> ExitHeads:
        """The same heads with what was measured of them."""

@final
class ExitTrainer:
    """A model whose exit heads are trained. Every method may raise `CoreError`."""

    @staticmethod
    def load(
        path: str | PathLike[str], *, window_tokens: int, threads: int | None = None, mask: Mask | None = None
    ) -> ExitTrainer:
        """Read a model, without the parts of a mask, for texts of up to `window_tokens` tokens each."""

    def encode(self, text: str) -> list[int]:
        """Tokens of a text."""

    def train(
        self,
        domains: Sequence[tuple[str, Sequence[Sequence[int]], float]],
        calibration_sha256: bytes,
        *,
        bound: float = 0.01,
        layers: Sequence[int] = ...,
        progress: Callable[[str, int, int], object] | None = None,
    ) -> tuple[
        ExitHeads,
        list[tuple[int, int, float, float]],
        list[tuple[float, list[float | None], list[tuple[str, int, int, float, int, int]], bool]],
        int | None,
    ]:
        """Train heads and find thresholds under which every domain keeps a bound.

        Args:
            domains: Names, texts in tokens, at least five each, and the share of rows that may leave, 0 to 1.
            calibration_sha256: Sum over the texts, 32 bytes.
            bound: Most first choices that may be others than the full model's, 0 to 1, with 95 % confidence.
            layers: At most four layers to leave before; none chooses.
            progress: Called with what is done, windows done and in all. What it raises ends the training.

        Returns:
            The heads; by layer (layer, rows, share of final first choices, area under the curve); the tested
            thresholds (rate, thresholds, by domain (name, rows, differing, upper bound, rows that left,
            layers left out), whether the bound was kept); and the index of those in use.
        """

@final
class Neurons:
    """Thresholds of what gates let through, by layer, for one model file."""

    def __new__(
        cls,
        weights_sha256: bytes,
        calibration_sha256: bytes,
        thresholds: Sequence[float],
        report: str,
        mask: Mask | None = None,
    ) -> Neurons:
        """Thresholds and what was measured of them, as JSON, with a mask in use or none."""

    @staticmethod
    def from_bytes(data: bytes) -> Neurons:
        """Read the bytes of a file."""

    def to_bytes(self) -> bytes:
        """The bytes of the file."""

    @property
    def weights_sha256(self) -> str:
        """SHA-256 of the model file they were measured on."""

    @property
    def mask_sum(self) -> str:
        """Sum of the mask that was in use, in hexadecimal; empty without one."""

    @property
    def calibration_sha256(self) -> str:
        """SHA-256 over the texts they were measured on."""

    @property
    def thresholds(self) -> list[float]:
        """One a layer; a negative one keeps every neuron."""

    @property
    def report(self) -> str:
        """What was measured, as JSON."""

@final
class Meter:
    """A model under measurement. Every method may raise `CoreError`."""

    @staticmethod
    def load(path: str | PathLike[str], *, window_tokens: int, threads: int | None = None) -> Meter:
        """Read a model for texts of up to `window_tokens` tokens each."""

    def encode(self, text: str) -> list[int]:
        """Tokens of a text."""

    def empty_mask(self) -> Mask:
        """A mask that leaves nothing out."""

    @property
    def weight_bytes(self) -> int:
        """Bytes of all packed weights."""

    @property
    def vocabulary(self) -> int:
        """Logits in a row."""

    @property
    def token_bytes(self) -> int:
        """Bytes of packed weights that are read for one decoded token."""

    def parts(self) -> list[tuple[int, int, int, int, int]]:
        """Of each layer: query heads, key and value heads, values of a head, bytes of both blocks."""

    def compiled(self, mask: Mask) -> tuple[list[tuple[int, int, int, int, int]], int]:
        """What each layer would hold with a mask, and the bytes of packed weights in all, by loading it."""

    def leave_out(self, mask: Mask) -> None:
        """Let the model without the parts of a mask stand for the full one from now on.

        In `reference`, `gate_thresholds`, `gate_reach` and `measure_neurons`; texts that were kept are
        forgotten.
        """

    def reference(self, windows: Sequence[Sequence[int]], every: int) -> None:
        """Compute texts with the full model; keep its logits after every `every`-th token and the last."""

    def trace(self, mask: Mask, windows: Sequence[int]) -> None:
        """Keep what some texts reach before every layer without the parts of a mask, up to 2 GiB.

        `measure` then computes those texts only from the first layer on that differs; figures are the same.
        """

    @property
    def computed_layers(self) -> int:
        """Layers computed since the load, over all texts."""

    def measure(self, mask: Mask, windows: Sequence[int]) -> list[list[tuple[float, bool, float, bool]]]:
        """Compute some of the texts without the parts of a mask.

        Returns:
            By text, of each kept row: divergence in nats, whether the likeliest token is another, change of
            the loss in nats, whether all logits are the same bits.
        """

    def gate_thresholds(self, windows: Sequence[int], shares: Sequence[float]) -> list[list[float]]:
        """For each share, by layer, the threshold that so many of the gates of some texts do not exceed."""

    def gate_reach(
        self, thresholds: Sequence[float], windows: Sequence[int]
    ) -> tuple[float, float, float, float, float]:
        """Shares of neurons under the thresholds: alone, by strip, sorted strip, blocks of 32 and of 256."""

    def measure_neurons(
        self, thresholds: Sequence[float], windows: Sequence[int]
    ) -> list[list[tuple[float, bool, float, bool]]]:
        """As `measure`, for the full model, or what is left of it, without neurons under the thresholds."""

    def observe(self, windows: Sequence[int]) -> list[dict[str, object]]:
        """Compute some of the texts with the full model.

        Returns:
            Of each layer: influence, head_norms, head_peaks, and for attention and mlp a dict of rows, norm,
            relative_norm, peak and mean.
        """
