"""A deterministic stand-in for `zlrs._core.Engine`: one token a character, one thread, the same interface.

What it answers is scripted, and it can be held at any token until a test lets it go, so that tests wait for
events and never for time.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from zlrs._core import CoreError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from zlrs._core import Validation

ROLE_IDS = {"system": 0x110001, "user": 0x110002, "assistant": 0x110003}
END_OF_TURN = 0x110004
VOCABULARY = 0x110005
SKIPS = 7
"""Tokens it claims to have left layers out for, in an aggressive answer."""
DRAWN_SEED = 4242
DAMAGED = b"damaged"
"""In the place of the key of a saved state: the file is not what was saved."""


def core_error(kind: str, message: str) -> CoreError:
    """An error as the native module raises it."""
    error = CoreError(kind, message)
    error.type, error.message = kind, message
    return error


@dataclass
class Delta:
    text: str
    ids: list[int]


@dataclass
class Token:
    index: int
    text: str
    provisional: bool


@dataclass
class Correction:
    index: int
    original: str
    corrected: str


@dataclass
class Finished:
    reason: str
    stop_sequence: str | None
    output_tokens: int
    input_tokens: int
    seed: int
    queue_ms: float = 1.0
    prefill_ms: float = 2.0
    decode_ms: float = 3.0
    first_token_ms: float = 2.5
    cached_tokens: int = 0
    drafted_tokens: int = 0
    accepted_tokens: int = 0
    kv_ms: float = 0.25
    decompress_ms: float = 0.0
    compute_ms: float = 4.5
    io_ms: float = 0.5
    compute: str = "exact"
    sparse_skips: int = 0
    row_layer_skips: int = 0
    most_layer_skips: int = 0
    notes: Sequence[tuple[int, str, str, str]] = ()


Event: TypeAlias = "Delta | Token | Correction | Finished"


class FakePin:
    """Keeps nothing, and says so as the native module does."""

    def __init__(self, ids: Sequence[int], tenant: bytes | None, compute: str) -> None:
        self.ids, self.tenant, self.held, self.compute = tuple(ids), tenant, True, compute

    @property
    def tokens(self) -> int:
        return len(self.ids)

    def release(self) -> None:
        self.held = False


@dataclass
class FakeRestored:
    fit: str
    ids: list[int]
    note: bytes
    pin: FakePin


@dataclass
class Script:
    """How the fake answers.

    Attributes:
        reply: The text, or a function of the prompt's text.
        hold_before: Token numbers before which it waits for `go`.
        fail_before: Token number at which the step fails, as `error`.
        refuse: Raise this at submission instead.
        template_error: Raise this when rendering.
        cached_tokens: Prompt tokens it claims not to compute.
        told: Events about single tokens before these token numbers, where they are asked for.
        notes: What it claims to have marked, where validation is asked for.
        hold_begin: Work begins, so that `cached_tokens` are known, only after `go`.
    """

    reply: str | Callable[[str], str] = "Hello from the fake."
    hold_before: frozenset[int] = frozenset()
    fail_before: int | None = None
    error: tuple[str, str] = ("engine_failed", "a logit is not finite")
    refuse: tuple[str, str] | None = None
    template_error: tuple[str, str] | None = None
    cached_tokens: int = 0
    hold_begin: bool = False
    told: Mapping[int, Sequence[Token | Correction]] = field(default_factory=dict)
    notes: Sequence[tuple[int, str, str, str]] = ()
    go: threading.Event = field(default_factory=threading.Event)
    held: threading.Event = field(default_factory=threading.Event)


class FakeGeneration:
    def __init__(self, ids: Sequence[int], options: dict[str, object], cached_tokens: int | None) -> None:
        self.input_tokens = len(ids)
        self.cached_tokens = cached_tokens
        self.ids = list(ids)
        self.options = options
        self.cancelled = threading.Event()
        self.ended = threading.Event()
        self._events: deque[Event | CoreError] = deque()
        self._ready = threading.Condition()
        self._fd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)

    def __del__(self) -> None:
        self.cancelled.set()
        os.close(self._fd)

    def fileno(self) -> int:
        return self._fd

    def begin(self, cached_tokens: int) -> None:
        """Work begins: readers are woken and find no event."""
        self.cached_tokens = cached_tokens
        os.eventfd_write(self._fd, 1)

    def push(self, event: Event | CoreError) -> None:
        with self._ready:
            self._events.append(event)
            os.eventfd_write(self._fd, 1)
            self._ready.notify_all()
        if isinstance(event, (Finished, CoreError)):
            self.ended.set()

    def drain(self) -> list[Event]:
        with self._ready:
            with contextlib.suppress(BlockingIOError):
                os.eventfd_read(self._fd)
            events: list[Event] = []
            while self._events:
                event = self._events[0]
                if isinstance(event, CoreError):
                    if not events:
                        self._events.popleft()
                        raise event
                    os.eventfd_write(self._fd, 1)
                    break
                events.append(event)
                self._events.popleft()
            return events

    def wait(self, timeout_ms: int) -> list[Event]:
        with self._ready:
            self._ready.wait_for(lambda: bool(self._events), timeout_ms / 1000)
        return self.drain()

    def cancel(self) -> None:
        self.cancelled.set()


class FakeEngine:
    """`_core.Engine` without a model. `submitted` and `generations` tell what was asked of it."""

    def __init__(
        self, script: Script | None = None, *, context_tokens: int = 2048, queue_limit: int = 64
    ) -> None:
        self.script = script or Script()
        self.context_tokens = context_tokens
        self.queue_limit = queue_limit
        self.submitted: list[dict[str, object]] = []
        self.generations: list[FakeGeneration] = []
        self.rendered: list[list[tuple[str, str]]] = []
        self.pins: list[FakePin] = []
        self.saved: dict[str, tuple[bytes, list[int], bytes, bytes | None]] = {}
        self.fit = "weights"
        self.hardware_now = ("cpu", "f16")
        self.kv_precision = "f16"
        self.backend_lost = False
        self.closed = False
        self.can_skip = False
        self._queue: deque[FakeGeneration] = deque()
        self._work = threading.Condition()
        self._running = 0
        self._decoded = 0
        self._thread = threading.Thread(target=self._run, name="fake-engine", daemon=True)
        self._thread.start()

    def info(self) -> dict[str, str | int | bool]:
        return {
            "name": "Fake Model", "architecture": "llama", "quantization": "Q4_1", "file_sha256": "ab" * 32,
            "file_bytes": 1000, "vocabulary": VOCABULARY, "context_tokens": self.context_tokens, "threads": 1,
            "isa": "naive", "device": "cpu", "numerics_version": 1, "layers": 2, "can_skip": self.can_skip,
            "has_chat_template": True,
            "kv_bytes": 1 << 20, "weight_bytes": 1000, "mask": "none", "mask_sum": "", "zero_heads": "",
            "kv_precision": self.kv_precision,
        }  # fmt: skip

    def device(self) -> tuple[str, str | None]:
        return "cpu", None

    def governor(self) -> tuple[float, list[dict[str, float | str | None]]] | None:
        return None

    def hardware(self) -> tuple[str, str]:
        return self.hardware_now

    def parts(self) -> list[tuple[int, int, int, int, int]]:
        return [(2, 1, 64, 300, 200), (2, 1, 64, 300, 200)]

    def encode(self, text: str) -> list[int]:
        return [ord(character) for character in text]

    def decode(self, ids: Sequence[int]) -> bytes:
        return "".join(chr(token) for token in ids if token < ROLE_IDS["system"]).encode()

    def render(self, messages: Sequence[tuple[str, str]], *, add_generation_prompt: bool = True) -> list[int]:
        self.rendered.append(list(messages))
        if self.script.template_error is not None:
            raise core_error(*self.script.template_error)
        ids = []
        for role, content in messages:
            ids += [ROLE_IDS[role], *self.encode(content), END_OF_TURN]
        return ids + ([ROLE_IDS["assistant"]] if add_generation_prompt else [])

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
    ) -> FakeGeneration:
        options: dict[str, object] = {
            "max_tokens": max_tokens, "temperature": temperature, "top_p": top_p, "top_k": top_k,
            "min_p": min_p, "repetition_penalty": repetition_penalty, "seed": seed, "stop": tuple(stop),
            "logit_bias": logit_bias, "deadline_ms": deadline_ms, "priority": priority, "tenant": tenant,
            "stream_mode": stream_mode,
            "compute": compute, "require_exits": require_exits, "validation": validation,
        }  # fmt: skip
        self.submitted.append(options)
        if self.script.refuse is not None:
            raise core_error(*self.script.refuse)
        script = self.script
        generation = FakeGeneration(ids, options, None if script.hold_begin else script.cached_tokens)
        with self._work:
            if len(self._queue) >= self.queue_limit:
                raise core_error(
                    "overloaded_error", f"{len(self._queue)} requests wait, the limit is {self.queue_limit}"
                )
            self._queue.append(generation)
            self.generations.append(generation)
            self._work.notify_all()
        return generation

    def pin(self, ids: Sequence[int], *, tenant: bytes | None = None, compute: str = "exact") -> FakePin:
        self.pins.append(FakePin(ids, tenant, compute))
        return self.pins[-1]

    @property
    def held(self) -> list[FakePin]:
        """Pins that nobody has let go."""
        return [pin for pin in self.pins if pin.held]

    def save_state(
        self,
        path: str | os.PathLike[str],
        key: bytes,
        ids: Sequence[int],
        *,
        limit_bytes: int,
        note: bytes = b"",
        tenant: bytes | None = None,
    ) -> tuple[int, int]:
        del limit_bytes
        self.saved[os.fspath(path)] = (key, list(ids), note, tenant)
        return len(ids), len(note)

    def restore_state(
        self, path: str | os.PathLike[str], key: bytes, *, limit_bytes: int, tenant: bytes | None = None
    ) -> FakeRestored:
        if os.fspath(path) not in self.saved:
            raise core_error("session_expired", "there is no saved state")
        sealed, ids, note, owner = self.saved[os.fspath(path)]
        if sealed == DAMAGED:
            raise core_error("kv_corrupt", "the seal does not fit")
        if sealed != key or len(note) > limit_bytes:
            raise core_error("kv_incompatible", f"{os.fspath(path)} cannot be used")
        if owner != tenant:
            raise core_error("session_forbidden", "it belongs to another tenant")
        return FakeRestored(
            self.fit, ids, note, self.pin(ids if self.fit == "weights" else [], tenant=tenant)
        )

    def statistics(self) -> dict[str, int]:
        return {
            "kv_blocks_total": -(-self.context_tokens // 16),
            "queued": len(self._queue),
            "running": self._running,
            "tokens_decoded": self._decoded,
            "backend_lost": int(self.backend_lost),
        }

    def close(self) -> None:
        with self._work:
            self.closed = True
            for generation in self.generations:
                generation.cancel()
            self._work.notify_all()
        self.script.go.set()
        self._thread.join(timeout=10)

    def _run(self) -> None:
        while True:
            with self._work:
                self._work.wait_for(lambda: bool(self._queue) or self.closed)
                if self.closed:
                    return
                generation = self._queue.popleft()
                self._running += 1
            self._answer(generation)
            with self._work:
                self._running -= 1

    def _answer(self, generation: FakeGeneration) -> None:
        script = self.script
        if script.hold_begin:
            script.go.wait()
            generation.begin(script.cached_tokens)
        reply = script.reply
        if callable(reply):
            reply = reply(self.decode(generation.ids).decode())
        text, reason, matched = cut(reply, generation.options)
        sent = 0
        for number, character in enumerate(text):
            if number in script.hold_before:
                script.held.set()
                while not script.go.wait(0.01):
                    if generation.cancelled.is_set():
                        break
            if generation.cancelled.is_set():
                reason, matched = "cancelled", None
                break
            if script.fail_before == number:
                generation.push(core_error(*script.error))
                return
            if generation.options["stream_mode"] != "plain":
                for event in script.told.get(number, ()):
                    generation.push(event)
            generation.push(Delta(character, [ord(character)]))
            sent += 1
            self._decoded += 1
        seed = generation.options["seed"]
        skips = SKIPS if self.can_skip and generation.options["compute"] == "aggressive" else 0
        generation.push(
            Finished(
                reason,
                matched,
                sent,
                generation.input_tokens,
                DRAWN_SEED if seed is None else int(str(seed)),
                cached_tokens=script.cached_tokens,
                compute=str(generation.options["compute"]) if self.can_skip else "exact",
                sparse_skips=skips,
                row_layer_skips=skips,
                most_layer_skips=min(skips, 1),
                notes=script.notes if generation.options["validation"] is not None else (),
            )
        )


def cut(reply: str, options: Mapping[str, object]) -> tuple[str, str, str | None]:
    """The reply as far as `max_tokens` and the stop sequences let it go, with reason and matched stop."""
    reason, matched = "stop", None
    stops = options["stop"]
    assert isinstance(stops, tuple)
    found = sorted((reply.find(stop), stop) for stop in stops if stop in reply)
    if found:
        reply, reason, matched = reply[: found[0][0]], "stop_sequence", found[0][1]
    limit = int(str(options["max_tokens"]))
    if len(reply) > limit:
        return reply[:limit], "max_tokens", None
    return reply, reason, matched
