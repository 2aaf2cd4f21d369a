"""`Engine` in Python over the stand-in: results, streams, threads, loops, interruption, closing, forking."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import threading

import pytest

from support.events import collect
from support.fake_engine import DRAWN_SEED, END_OF_TURN, ROLE_IDS, FakeEngine, Script
from zlrs.engine import Engine
from zlrs.errors import ZlrsError
from zlrs.results import Delta, Usage
from zlrs.streams import ClosedError, ForkedError
from zlrs.types import Message


def make(script: Script | None = None) -> tuple[Engine, FakeEngine]:
    core = FakeEngine(script)
    return Engine(core, name="fake"), core


def test_generate_gives_the_whole_with_facts() -> None:
    engine, core = make(Script(reply="abcdef"))
    with engine:
        done = engine.generate("xyz", max_tokens=4, seed=7)
    assert (done.text, done.token_ids) == ("abcd", tuple(b"abcd"))
    assert (done.finish_reason, done.stop_sequence, done.seed) == ("max_tokens", None, 7)
    assert done.usage == Usage(input_tokens=3, output_tokens=4)
    assert core.submitted[0]["max_tokens"] == 4
    assert core.submitted[0]["temperature"] == 0.0


def test_a_drawn_seed_is_reported_and_stops_are_named() -> None:
    engine, _ = make(Script(reply="one two three"))
    with engine:
        done = engine.generate("x", stop=["three", "two"])
    assert (done.text, done.finish_reason, done.stop_sequence) == ("one ", "stop_sequence", "two")
    assert done.seed == DRAWN_SEED


def test_text_is_continued_and_messages_go_through_the_template() -> None:
    engine, core = make()
    with engine:
        assert engine.prepare("hé") == [ord("h"), ord("é")]
        ids = engine.prepare([Message("system", "s"), {"role": "user", "content": "u"}])
        assert ids == [
            ROLE_IDS["system"], ord("s"), END_OF_TURN, ROLE_IDS["user"], ord("u"), END_OF_TURN,
            ROLE_IDS["assistant"],
        ]  # fmt: skip
        begun = engine.prepare([Message("user", "u"), Message("assistant", "So")])
        assert begun[-3:] == [ROLE_IDS["assistant"], ord("S"), ord("o")]
        assert core.rendered[-1] == [("user", "u")]


@pytest.mark.parametrize("prompt", [[{"role": "user"}], [{"role": 1, "content": "x"}], [["user", "x"]]])
def test_what_is_no_message_says_so(prompt: list[dict[str, str]]) -> None:
    engine, _ = make()
    with engine, pytest.raises(TypeError, match="`role` and `content`"):
        engine.prepare(prompt)


def test_unknown_options_are_named() -> None:
    engine, _ = make()
    with engine, pytest.raises(TypeError, match=r"unknown option `maxtokens`; known: max_tokens"):
        engine.generate("x", maxtokens=3)  # type: ignore[call-arg]


def test_stream_pieces_join_to_the_completion() -> None:
    engine, _ = make(Script(reply="pieces"))
    with engine:
        stream = engine.stream("x")
        assert stream.input_tokens == 1
        with pytest.raises(RuntimeError, match="has not ended"):
            _ = stream.completion
        pieces = list(stream)
        assert all(isinstance(piece, Delta) for piece in pieces)
        assert "".join(piece.text for piece in pieces) == "pieces" == stream.completion.text
        assert list(stream) == []


def test_leaving_a_stream_cancels() -> None:
    engine, core = make(Script(reply="long text", hold_before=frozenset({2})))
    with engine:
        with engine.stream("x") as stream:
            next(stream)
        assert core.generations[0].cancelled.is_set()


def test_core_errors_become_catalogue_errors() -> None:
    engine, core = make(Script(refuse=("overloaded_error", "the queue is full")))
    with engine:
        with pytest.raises(ZlrsError) as caught:
            engine.generate("x")
        assert (caught.value.type, caught.value.status) == ("overloaded_error", 529)
        core.script.refuse = None
        core.script.fail_before = 3
        with pytest.raises(ZlrsError) as caught:
            engine.generate("x")
        assert caught.value.type == "engine_failed"
        core.script.template_error = ("invalid_request_error", "the template refuses")
        with pytest.raises(ZlrsError, match="the template refuses"):
            engine.prepare([Message("user", "x")])


def test_ctrl_c_cancels_and_leaves() -> None:
    engine, core = make(Script(reply="never ends", hold_before=frozenset({1})))

    def interrupt() -> None:
        core.script.held.wait()
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    helper = threading.Thread(target=interrupt)
    with engine:
        helper.start()
        with pytest.raises(KeyboardInterrupt):
            engine.generate("x")
        helper.join()
        assert core.generations[0].cancelled.is_set()


def test_use_after_close_says_so() -> None:
    engine, core = make()
    engine.close()
    engine.close()
    assert core.closed
    with pytest.raises(ClosedError, match="has been closed"):
        engine.generate("x")
    with pytest.raises(ClosedError):
        _ = engine.info
    assert "closed" in repr(engine)


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_use_in_a_fork_says_so() -> None:
    engine, _ = make()
    with engine:
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                engine.generate("x")
                os.write(writer, b"answered")
            except ForkedError as error:
                os.write(writer, str(error).encode())
            finally:
                os._exit(0)
        os.close(writer)
        os.waitpid(child, 0)
        said = os.read(reader, 1000).decode()
        os.close(reader)
        assert "fork" in said
        assert "spawn" in said
        assert engine.generate("x").text


def test_many_threads_share_an_engine() -> None:
    engine, _ = make(Script(reply=lambda prompt: prompt.upper()))
    answers: dict[int, str] = {}

    def ask(number: int) -> None:
        answers[number] = engine.generate(f"n{number}").text

    with engine:
        threads = [threading.Thread(target=ask, args=(number,)) for number in range(16)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert answers == {number: f"N{number}" for number in range(16)}


async def test_async_twins_give_the_same() -> None:
    engine, _ = make(Script(reply="the same"))
    with engine:
        whole = await engine.generate_async([Message("user", "x")])
        stream = await engine.stream_async("x")
        text = "".join([piece.text async for piece in stream])
        assert whole.text == text == stream.completion.text == "the same"
        assert whole.usage.input_tokens == 4


async def test_cancelling_the_task_cancels_the_generation() -> None:
    engine, core = make(Script(reply="never ends", hold_before=frozenset({1})))
    with engine:
        task = asyncio.create_task(engine.generate_async("x"))
        await asyncio.to_thread(core.script.held.wait, 20)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert core.generations[0].cancelled.is_set()


async def test_dropping_an_async_stream_cancels() -> None:
    engine, core = make(Script(reply="never ends", hold_before=frozenset({1})))
    with engine:
        stream = await engine.stream_async("x")
        await stream.__anext__()
        del stream
        gc.collect()
        await asyncio.to_thread(core.generations[0].cancelled.wait, 10)
        assert core.generations[0].cancelled.is_set()


async def test_a_failure_comes_after_the_pieces_before_it() -> None:
    engine, _ = make(Script(reply="abcdef", fail_before=3))
    with engine:
        stream = await engine.stream_async("x")
        pieces: list[Delta] = []
        with pytest.raises(ZlrsError, match="not finite"):
            await collect(stream, pieces)
        assert [piece.text for piece in pieces] == ["a", "b", "c"]


async def test_on_end_is_told_once_even_when_nobody_reads() -> None:
    from zlrs.streams import AsyncStream

    engine, _ = make(Script(reply="abc"))
    told: list[AsyncStream] = []
    done = asyncio.Event()

    def on_end(stream: AsyncStream) -> None:
        told.append(stream)
        done.set()

    with engine:
        stream = AsyncStream(engine.submit(engine.prepare("x")), on_end=on_end)
        await done.wait()
        assert [piece.text async for piece in stream] == ["a", "b", "c"]
        await stream.aclose()
        assert told == [stream]


def test_several_event_loops_share_an_engine() -> None:
    engine, _ = make(Script(reply=lambda prompt: prompt[::-1]))
    answers: list[str] = []

    async def many(prefix: str) -> None:
        done = await asyncio.gather(*(engine.generate_async(f"{prefix}{number}") for number in range(5)))
        answers.extend(completion.text for completion in done)

    with engine:
        threads = [threading.Thread(target=asyncio.run, args=(many(prefix),)) for prefix in "abc"]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert sorted(answers) == sorted(f"{number}{prefix}" for prefix in "abc" for number in range(5))
