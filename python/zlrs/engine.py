"""`Engine`: a model from a file, asked from Python. No web server is imported here."""

from __future__ import annotations

import asyncio
import os
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Literal, cast

from zlrs import _core
from zlrs.branches import require_branches
from zlrs.exits import load_exits
from zlrs.governor import Governor
from zlrs.kept import Kept
from zlrs.load import Load, found_vocabulary, served_name
from zlrs.masks import load_mask
from zlrs.model import LoadedModel
from zlrs.models import resolve
from zlrs.neurons import load_neurons
from zlrs.options import DEFAULT_MAX_TOKENS, GenerateOptions, require_known, turn_of
from zlrs.progress import Progress
from zlrs.session import STATE_LIMIT_BYTES, Session
from zlrs.streams import AsyncStream, ClosedError, ForkedError, Stream, reraise
from zlrs.types import Message

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from types import TracebackType

    from typing_extensions import Self, Unpack

    from zlrs.branches import Branch
    from zlrs.kept import Fit
    from zlrs.native import NativeEngine, NativeGeneration
    from zlrs.results import Completion

DEFAULT_QUEUE_LIMIT = 64
_GOVERNOR = Governor()


class Engine:
    """One loaded model. Safe to use from several threads and event loops at once; not after a fork.

    Example:
        >>> engine = Engine.load("qwen2.5-coder-0.5b-instruct-q4_k_m")  # doctest: +SKIP
        >>> engine.generate("def fib(n):", max_tokens=24).text  # doctest: +SKIP
    """

    def __init__(self, core: NativeEngine, *, name: str) -> None:
        self._core = core
        self._name = name
        self._process = os.getpid()
        self._closed = False
        # One preparation thread: templates and tokens are made off the event loop, in order.
        self._preparation = ThreadPoolExecutor(max_workers=1, thread_name_prefix="zlrs-prepare")

    @classmethod
    def load(
        cls,
        name_or_path: str | os.PathLike[str],
        *,
        threads: int | None = None,
        context_tokens: int | None = None,
        kv_bytes: int | None = None,
        queue_limit: int = DEFAULT_QUEUE_LIMIT,
        drafting: Literal["off", "auto", "always"] = "auto",
        device: Literal["auto", "cpu", "cuda"] = "cpu",
        kv_precision: Literal["f16", "q8", "q4", "governed"] = "f16",
        governor: Governor = _GOVERNOR,
        mask: str | os.PathLike[str] | None = None,
        mask_fallback: bool = False,
        self_drafting: Literal["off", "auto", "always"] = "off",
        draft_mask: str | os.PathLike[str] | None = None,
        draft_vocabulary: int | None = None,
        exits: str | os.PathLike[str] | None = None,
        neurons: str | os.PathLike[str] | None = None,
        progress: bool | Callable[[int, int], None] = True,
    ) -> Self:
        """Load a model; a known name that is not on disk yet is fetched first.

        Args:
            name_or_path: A name from `zlrs models list`, the path or the URL of a GGUF file.
            threads: Worker threads, by default the cores this process may use.
            context_tokens: Longest prompt plus answer, by default the model's own window.
            kv_bytes: Hard limit of the KV memory.
            queue_limit: Requests that may wait; one more is refused with `overloaded_error`.
            drafting: Whether tokens are guessed, to verify several in one step: never, as far as it pays, or
                always. Answers do not depend on it.
            device: Where to compute: on a GPU if one can be used (a line in the log says why not), on the
                processor, or on a GPU and nowhere else.
            kv_precision: How a GPU keeps keys and values of answers with `compute="aggressive"`: as f16; in 8
                or 4 bits, which changes answers; or by the load of its memory and its temperature.
            governor: How the latter is decided.
            mask: A mask file (`zlrs mask build`): the parts it names get no weights and no KV memory and are
                not computed. Answers are then those of the smaller model.
            mask_fallback: Load the full model when mask or exit heads are for other weights, in place of an
                error.
            self_drafting: Whether the model guesses by itself where `drafting` has nothing, with the parts
                that `draft_mask` leaves: never, as far as it pays, or always. Answers do not depend on it.
            draft_mask: A mask file (`zlrs drafts train`): parts that are not computed while guessing.
            draft_vocabulary: Only the first so many tokens of the vocabulary are guessed by the model; by
                default as many as was found best with the mask.
            exits: A file of exit heads (`zlrs exits train`): rows of aggressive requests may leave before the
                last layer, within the bound that was measured.
            neurons: A file of thresholds (`zlrs neurons train`): in rows of aggressive requests neurons
                whose gates let no more through count for nothing, within the bound that was measured.
            progress: A bar on a terminal and plain lines elsewhere, nothing, or your own function of
                (bytes done, bytes in all).

        Raises:
            ModelStoreError: The name is unknown or the file cannot be had.
            ZeroLayerMismatchError: The mask or the exit heads are for other weights.
            ZlrsError: The file is damaged, not supported, or does not fit.
        """
        path = resolve(os.fspath(name_or_path))
        options = Load(
            path=path,
            threads=threads,
            context_tokens=context_tokens,
            kv_bytes=kv_bytes,
            queue_limit=queue_limit,
            drafting=drafting,
            device=device,
            kv_precision=kv_precision,
            governor=governor,
            mask=None if mask is None else load_mask(mask),
            mask_fallback=mask_fallback,
            self_drafting=self_drafting,
            draft_mask=(drafts := None if draft_mask is None else load_mask(draft_mask)),
            draft_vocabulary=found_vocabulary(drafts) if draft_vocabulary is None else draft_vocabulary,
            exits=None if exits is None else load_exits(exits),
            neurons=None if neurons is None else load_neurons(neurons),
        )
        name = served_name(os.fspath(name_or_path), path)
        if callable(progress):
            return cls(options.run(progress), name=name)
        if not progress:
            return cls(options.run(None), name=name)
        with Progress(f"loading {name}", path.stat().st_size) as bar:
            return cls(options.run(lambda done_bytes, _total_bytes: bar.update(done_bytes)), name=name)

    @property
    def name(self) -> str:
        """What was asked for: the registry's name, or the file's stem."""
        return self._name

    @property
    def info(self) -> Mapping[str, str | int | bool]:
        """Facts of the loaded model: architecture, quantization, file_sha256, context_tokens, threads, …."""
        return self._usable().info()

    @property
    def model(self) -> LoadedModel:
        """What is loaded, layer by layer; a layer that a mask emptied is a placeholder without parameters."""
        return LoadedModel.of(self._usable().parts())

    @property
    def device(self) -> tuple[str, str | None]:
        """`cpu` or the GPU's name, and why it is not a GPU where one would have been taken."""
        return self._usable().device()

    def hardware(self) -> tuple[str, str]:
        """What computes now, for receipts.

        Returns:
            `cpu`, `cuda`, or the governor's mode (`hbm_optimized`, `full_precision`, `fallback`,
            `thermal_throttled`); and what keys and values get that are kept from now on: `f16`, `q8`, `q4`.
        """
        return self._usable().hardware()

    def governor(self) -> tuple[float, list[dict[str, float | str | None]]] | None:
        """The memory's peak in bytes a second, and the last 256 decisions with what they were decided by.

        Returns:
            Nothing without a governor. A decision has the keys reading, step, hardware_mode, kv_precision,
            demand_share, achieved_share, temperature_c, clock_mhz and memory_clock_mhz.
        """
        return self._usable().governor()

    @property
    def statistics(self) -> Mapping[str, int]:
        """Counters and levels now: queued, running, kv_blocks_used, tokens_decoded, …."""
        return self._usable().statistics()

    def prepare(self, prompt: str | Sequence[Message | Mapping[str, str]]) -> list[int]:
        """Token ids of a prompt.

        Args:
            prompt: A text, continued as it stands; or messages, put through the model's chat template. A last
                message of role `assistant` is the beginning of the answer and is continued.

        Raises:
            ZlrsError: The model has no chat template, or its template refuses these messages.
        """
        core = self._usable()
        try:
            if isinstance(prompt, str):
                return core.encode(prompt)
            turns = [turn_of(message) for message in prompt]
            if turns and turns[-1][0] == "assistant":
                return core.render(turns[:-1]) + _without_bos(core, turns[-1][1])
            return core.render(turns)
        except _core.CoreError as error:
            reraise(error)

    async def prepare_async(self, prompt: str | Sequence[Message | Mapping[str, str]]) -> list[int]:
        """As `prepare`, in the preparation thread."""
        self._usable()
        return await asyncio.get_running_loop().run_in_executor(self._preparation, self.prepare, prompt)

    def submit(self, ids: Sequence[int], **options: Unpack[GenerateOptions]) -> NativeGeneration:
        """Queue prepared ids; returns at once. For servers; `stream` and `generate` are for everyone else."""
        require_known(options)
        values = {"max_tokens": DEFAULT_MAX_TOKENS, **options}
        core = self._usable()
        try:
            return core.submit(ids, **cast("GenerateOptions", values))
        except _core.CoreError as error:
            reraise(error)

    def stream(
        self, prompt: str | Sequence[Message | Mapping[str, str]], **options: Unpack[GenerateOptions]
    ) -> Stream:
        """Answer piece by piece.

        Returns:
            An iterator of `Delta`; its `completion` holds the whole at the end. Ctrl-C, `close()` and
            dropping it cancel the work.
        """
        require_known(options)
        return Stream(self.submit(self.prepare(prompt), **options))

    def generate(
        self, prompt: str | Sequence[Message | Mapping[str, str]], **options: Unpack[GenerateOptions]
    ) -> Completion:
        """Answer as a whole. Ctrl-C cancels."""
        require_known(options)
        return self.complete(self.prepare(prompt), **options)

    async def stream_async(
        self, prompt: str | Sequence[Message | Mapping[str, str]], **options: Unpack[GenerateOptions]
    ) -> AsyncStream:
        """As `stream`, for the running event loop; cancelling the reading task cancels the work."""
        require_known(options)
        ids = await self.prepare_async(prompt)
        return AsyncStream(self.submit(ids, **options))

    async def generate_async(
        self, prompt: str | Sequence[Message | Mapping[str, str]], **options: Unpack[GenerateOptions]
    ) -> Completion:
        """As `generate`, for the running event loop; cancelling the task cancels the work."""
        require_known(options)
        return await self.complete_async(await self.prepare_async(prompt), **options)

    def complete(self, ids: Sequence[int], **options: Unpack[GenerateOptions]) -> Completion:
        """Answer prepared ids as a whole. Ctrl-C cancels."""
        with Stream(self.submit(ids, **options)) as stream:
            for _ in stream:
                pass
            return stream.completion

    async def complete_async(self, ids: Sequence[int], **options: Unpack[GenerateOptions]) -> Completion:
        """As `complete`, for the running event loop; cancelling the task cancels the work."""
        async with AsyncStream(self.submit(ids, **options)) as stream:
            async for _ in stream:
                pass
            return stream.completion

    def keep(self, tenant: bytes | None = None) -> Kept:
        """A place to keep what is computed of one conversation; `session` is for everyone but servers."""
        return Kept(self._usable(), tenant)

    def restore_kept(
        self, path: str | os.PathLike[str], key: bytes, *, limit_bytes: int, tenant: bytes | None = None
    ) -> tuple[Kept, Fit, bytes]:
        """As `Kept.restore`, into this engine."""
        return Kept.restore(self._usable(), path, key, limit_bytes=limit_bytes, tenant=tenant)

    def session(
        self, *, system: str | None = None, turns: Sequence[Message] = (), tenant: bytes | None = None
    ) -> Session:
        """Begin a conversation whose computed state is kept from turn to turn.

        Args:
            system: What the model is told first.
            turns: What was said before.
            tenant: Whose conversation it is.
        """
        first = () if system is None else (Message("system", system),)
        return Session(self, (*first, *turns), self.keep(tenant), tenant)

    def restore_session(
        self,
        path: str | os.PathLike[str],
        key: bytes,
        *,
        limit_bytes: int = STATE_LIMIT_BYTES,
        tenant: bytes | None = None,
    ) -> Session:
        """Go on with a conversation that `Session.save` wrote, also in another process.

        With the same model file its keys and values are taken over, with another model of the same tokenizer
        they are computed again by the next turn.

        Raises:
            KvIncompatibleError: It was made with another tokenizer, with another key, by another version, or
                is over the limit.
            KvCorruptError: The file is not, bit for bit, what was saved with this key.
            SessionForbiddenError: It is another tenant's.
            SessionExpiredError: There is no such file.
        """
        kept, fit, note = self.restore_kept(path, key, limit_bytes=limit_bytes, tenant=tenant)
        return Session.restore(self, kept, fit, note, tenant, Path(path))

    def generate_many(
        self,
        prompts: Sequence[str | Sequence[Message | Mapping[str, str]]],
        **options: Unpack[GenerateOptions],
    ) -> list[Completion]:
        """Answer independent prompts together, in their order: one batch, with common beginnings read once.

        At most 32 are computed at a time, and no more wait than `queue_limit` allows. Ctrl-C cancels all.
        """
        require_known(options)
        return self._finish_all([(self.prepare(prompt), options) for prompt in prompts])

    def branches(
        self,
        prompt: Sequence[Message | Mapping[str, str]],
        branches: Sequence[Branch],
        **options: Unpack[GenerateOptions],
    ) -> dict[str, Completion]:
        """Continue one conversation in several ways at once; its prompt is read once.

        Args:
            prompt: The conversation; its last turn is the user's.
            branches: What each continuation is told, and its limit.
            options: For all of them.

        Returns:
            The answers by tag, in the order of `branches`.

        Raises:
            ValueError: No branch, more than 32, two of one tag, or a last turn that is not the user's.
        """
        require_known(options)
        require_branches(branches)
        turns = [Message(*turn_of(message)) for message in prompt]
        asked: list[tuple[list[int], GenerateOptions]] = []
        for branch in branches:
            own: GenerateOptions = {**options}
            if branch.max_tokens is not None:
                own["max_tokens"] = branch.max_tokens
            asked.append((self.prepare(branch.turns(turns)), own))
        answers = self._finish_all(asked)
        return {branch.tag: answer for branch, answer in zip(branches, answers, strict=True)}

    def _finish_all(self, asked: Sequence[tuple[list[int], GenerateOptions]]) -> list[Completion]:
        """Queue all before any is read, so that they share steps."""
        with ExitStack() as stack:
            streams = [stack.enter_context(Stream(self.submit(ids, **own))) for ids, own in asked]
            for stream in streams:
                for _ in stream:
                    pass
            return [stream.completion for stream in streams]

    def close(self) -> None:
        """Cancel everything and free the model's memory. May be called again."""
        if not self._closed and os.getpid() == self._process:
            self._closed = True
            self._preparation.shutdown(wait=True, cancel_futures=True)
            self._core.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<zlrs.Engine {self._name}{' (closed)' if self._closed else ''}>"

    def _usable(self) -> NativeEngine:
        if os.getpid() != self._process:
            raise ForkedError(self._process)
        if self._closed:
            raise ClosedError(f"the engine of {self._name} has been closed. Load it again with Engine.load")
        return self._core


def _without_bos(core: NativeEngine, text: str) -> list[int]:
    """Ids of a text in the middle of a prompt: `encode` begins with BOS where the model asks for one."""
    return core.encode(text)[len(core.encode("")) :]
