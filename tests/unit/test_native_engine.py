"""`zlrs._core.Engine` over the small real model: answers, events, interruption, forks, errors."""

from __future__ import annotations

import gc
import os
import select
import signal
import sys
import threading
import time
import warnings
from typing import TYPE_CHECKING

import pytest

from support.real_model import small_model
from zlrs import _core

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

pytestmark = pytest.mark.t1


@pytest.fixture(scope="module")
def engine() -> Iterator[_core.Engine]:
    loaded = _core.Engine.load(small_model(), context_tokens=1024)
    yield loaded
    loaded.close()


def collect(generation: _core.Generation) -> tuple[str, list[int], _core.Finished]:
    text, ids = "", []
    while True:
        for event in generation.wait(1000):
            if isinstance(event, _core.Finished):
                return text, ids, event
            text += event.text
            ids += event.ids


def test_a_question_is_answered_and_counted(engine: _core.Engine) -> None:
    prompt = engine.render([("user", "What is the capital of France?")])
    text, ids, finished = collect(engine.submit(prompt, max_tokens=48))
    assert "Paris" in text
    assert engine.decode(ids).decode() == text
    assert (finished.reason, finished.stop_sequence) == ("stop", None)
    assert (finished.input_tokens, finished.output_tokens) == (len(prompt), len(ids))
    assert 0 < finished.prefill_ms <= finished.first_token_ms


def test_code_is_continued(engine: _core.Engine) -> None:
    text, _, finished = collect(engine.submit(engine.encode("def fib(n):"), max_tokens=24))
    assert "fib(n" in text
    assert finished.reason == "max_tokens"


def test_greedy_and_seeded_answers_repeat(engine: _core.Engine) -> None:
    prompt = engine.encode("Once upon a time")
    greedy = [collect(engine.submit(prompt, max_tokens=20))[1] for _ in range(3)]
    assert greedy[0] == greedy[1] == greedy[2]
    options = {"max_tokens": 20, "temperature": 1.0, "top_p": 0.9, "top_k": 40, "min_p": 0.01}
    _, first, finished = collect(engine.submit(prompt, **options))
    assert collect(engine.submit(prompt, seed=finished.seed, **options))[1] == first
    assert collect(engine.submit(prompt, seed=finished.seed ^ 1, **options))[1] != first


def test_bias_penalty_and_stop_have_an_effect(engine: _core.Engine) -> None:
    prompt = engine.encode("The capital of France is")
    _, ids, _ = collect(engine.submit(prompt, max_tokens=1))
    _, other, _ = collect(engine.submit(prompt, max_tokens=1, logit_bias={ids[0]: -100.0}))
    assert other != ids
    _, forced, _ = collect(engine.submit(prompt, max_tokens=3, logit_bias={other[0]: 100.0}))
    assert forced == other * 3
    text, _, _ = collect(engine.submit(prompt, max_tokens=30))
    stop = text[8:14]
    cut, _, finished = collect(engine.submit(prompt, max_tokens=30, stop=["never seen", stop]))
    assert cut == text[: text.index(stop)]
    assert (finished.reason, finished.stop_sequence) == ("stop_sequence", stop)


def test_emoji_come_whole(engine: _core.Engine) -> None:
    prompt = engine.render([("user", "Repeat exactly: 😀🇩🇪é")])
    generation = engine.submit(prompt, max_tokens=40)
    text, ids, _ = collect(generation)
    assert text == engine.decode(ids).decode(errors="replace")


def test_events_wake_a_poll_and_only_while_they_wait(engine: _core.Engine) -> None:
    generation = engine.submit(engine.encode("One, two,"), max_tokens=3)
    poll = select.poll()
    poll.register(generation.fileno(), select.POLLIN)
    events = []
    while not any(isinstance(event, _core.Finished) for event in events):
        assert poll.poll(30_000)
        events += generation.drain()
    assert not poll.poll(0)
    assert generation.drain() == []
    assert generation.wait(0) == []


def test_waiting_leaves_the_interpreter_free(engine: _core.Engine) -> None:
    counted = 0
    done = threading.Event()

    def count() -> None:
        nonlocal counted
        while not done.is_set():
            counted += 1
            time.sleep(0)

    # A second engine's queue would be shorter; here the wait simply lasts as long as an answer takes.
    thread = threading.Thread(target=count)
    thread.start()
    try:
        collect(engine.submit(engine.encode("A long story:"), max_tokens=60))
    finally:
        done.set()
        thread.join()
    assert counted > 100


def test_many_threads_get_their_own_answers(engine: _core.Engine) -> None:
    prompts = [engine.encode(text) for text in ("One, two,", "def add(a, b):", "The sky is", "Dear Sir,")]
    expected = [collect(engine.submit(prompt, max_tokens=8))[0] for prompt in prompts]
    got: dict[int, str] = {}
    threads = [
        threading.Thread(
            target=lambda index=index: got.update(
                {index: collect(engine.submit(prompts[index], max_tokens=8))[0]},
            ),
        )
        for index in range(len(prompts))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [got[index] for index in range(len(prompts))] == expected


def test_dropping_and_cancelling_end_soon(engine: _core.Engine) -> None:
    before = engine.statistics()["cancelled"]
    prompt = engine.encode("word " * 800)
    generation = engine.submit(prompt, max_tokens=200)
    generation.cancel()
    assert collect(generation)[2].reason == "cancelled"
    generation = engine.submit(prompt, max_tokens=200)
    del generation
    gc.collect()
    while engine.statistics()["cancelled"] != before + 2:
        time.sleep(0.01)  # the test's own time limit ends a wait in vain
    statistics = engine.statistics()
    assert (statistics["running"], statistics["kv_blocks_used"]) == (0, 0)


def test_what_was_computed_is_not_computed_again_but_for_others(engine: _core.Engine) -> None:
    prompt = engine.encode("In a village by the sea, " * 20)
    tenant = b"1" * 32
    _, ids, cold = collect(engine.submit(prompt, max_tokens=8, tenant=tenant))
    generation = engine.submit(prompt, max_tokens=8, tenant=tenant)
    _, warm_ids, warm = collect(generation)
    assert (ids, cold.cached_tokens) == (warm_ids, 0)
    assert generation.cached_tokens == warm.cached_tokens == len(prompt) - 1
    _, other_ids, other = collect(engine.submit(prompt, max_tokens=8, tenant=b"2" * 32))
    assert (other_ids, other.cached_tokens) == (ids, 0)
    assert engine.statistics()["kv_blocks_cached"] > 0
    for wrong in ({"tenant": b"short"}, {"priority": "urgent"}):
        with pytest.raises(_core.CoreError) as caught:
            engine.submit(prompt, max_tokens=1, **wrong)
        assert caught.value.type == "invalid_request_error"


def test_limits_say_their_numbers(engine: _core.Engine) -> None:
    with pytest.raises(_core.CoreError, match="prompt is too long: 1024 tokens > 1023 maximum") as caught:
        engine.submit([1] * 1024, max_tokens=1)
    assert caught.value.type == "invalid_request_error"
    assert caught.value.message == "prompt is too long: 1024 tokens > 1023 maximum"
    for wrong in (
        {"temperature": 1e6},
        {"temperature": float("nan")},
        {"top_p": 0.0},
        {"min_p": 1.0},
        {"repetition_penalty": 0.0},
        {"stop": [""]},
        {"logit_bias": {1 << 30: 1.0}},
        {"max_tokens": 0},
    ):
        with pytest.raises(_core.CoreError) as caught:
            engine.submit([1], **{"max_tokens": 1, **wrong})
        assert caught.value.type == "invalid_request_error", wrong
    _, ids, finished = collect(engine.submit([1] * 1020, max_tokens=1000, logit_bias={100: 100.0}))
    assert (len(ids), finished.reason) == (4, "context")


def test_a_deadline_gives_what_there_is(engine: _core.Engine) -> None:
    _, ids, finished = collect(engine.submit(engine.encode("x"), max_tokens=5, deadline_ms=0))
    assert (ids, finished.reason) == ([], "deadline")


def test_ctrl_c_reaches_a_wait_in_slices(engine: _core.Engine) -> None:
    generation = engine.submit(engine.encode("word " * 900), max_tokens=100)
    threading.Timer(0.05, lambda: os.kill(os.getpid(), signal.SIGINT)).start()

    def wait_in_slices() -> None:
        while True:
            generation.wait(100)
            time.sleep(0.01)

    with pytest.raises(KeyboardInterrupt):
        wait_in_slices()


def error_type(call: Callable[[], object]) -> str | None:
    try:
        call()
    except _core.CoreError as error:
        return error.type
    return None


def test_a_fork_is_told_so(engine: _core.Engine) -> None:
    generation = engine.submit(engine.encode("x"), max_tokens=2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        types = [
            error_type(lambda: engine.submit([1], max_tokens=1)),
            error_type(engine.statistics),
            error_type(generation.drain),
            error_type(lambda: generation.wait(1000)),
        ]
        generation.cancel()
        engine.close()
        os._exit(0 if types == ["engine_closed"] * 4 else 1)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    assert collect(generation)[2].output_tokens == 2


def test_load_errors_and_progress(tmp_path: Path) -> None:
    with pytest.raises(_core.CoreError) as caught:
        _core.Engine.load(tmp_path / "none.gguf")
    assert caught.value.type == "model_not_found"
    assert "none.gguf" in caught.value.message
    junk = tmp_path / "junk.gguf"
    junk.write_bytes(b"GGUF" + bytes(20))
    with pytest.raises(_core.CoreError) as caught:
        _core.Engine.load(junk)
    assert caught.value.type in {"model_invalid", "model_unsupported"}
    with pytest.raises(_core.CoreError) as caught:
        _core.Engine.load(small_model(), threads=0)
    assert caught.value.type == "configuration_error"
    seen: list[tuple[int, int]] = []
    _core.Engine.load(small_model(), progress=lambda *pair: seen.append(pair)).close()
    assert seen[-1][0] == seen[-1][1] > 50_000_000

    def fail(_done: int, _total: int) -> None:
        raise LookupError("from progress")

    with pytest.raises(LookupError, match="from progress"):
        _core.Engine.load(small_model(), progress=fail)


def test_closing_frees_memory_and_fails_what_runs() -> None:
    loaded = _core.Engine.load(small_model())
    running = loaded.submit(loaded.encode("word " * 900), max_tokens=1000)
    loaded.close()
    loaded.close()
    with pytest.raises(_core.CoreError) as caught:
        collect(running)
    assert caught.value.type == "engine_closed"
    with pytest.raises(_core.CoreError) as caught:
        loaded.submit([1], max_tokens=1)
    assert caught.value.type == "engine_closed"


def test_info_has_every_fact(engine: _core.Engine) -> None:
    info = engine.info()
    assert (info["architecture"], info["quantization"], info["layers"]) == ("llama", "Q4_1", 30)
    assert info["context_tokens"] == 1024
    assert info["has_chat_template"] is True
    assert info["file_bytes"] == small_model().stat().st_size
    assert len(str(info["file_sha256"])) == 64
    assert info["isa"] == _core.build_info()["isa"]
    assert sys.getrefcount(info) < 5
