"""A turn of a session is the same conversation sent whole, bit for bit; also restored, also typed ahead.

Half of the answers are decoded greedily, half sampled with a seed. The long suite is `make exactness`.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import pytest

from support.real_model import small_model
from zlrs import Engine
from zlrs.errors import KvCorruptError, SessionForbiddenError

if TYPE_CHECKING:
    from pathlib import Path

    from zlrs.options import GenerateOptions
    from zlrs.session import Session

CONTEXT_TOKENS = 1024
KEY = bytes(range(32))
ALONE = (99).to_bytes(32, "big")
SYSTEMS = ("You are a careful assistant.", "Answer in one word.", "You are a clerk at a small station.\n" * 6)
ASKED = (
    ("Name a river.", "And a lake?"), ("What is 17 times 23?", "Are you sure? Explain."),
    ("def fib(n):", "Now without recursion."), ("请用一句话介绍北京。", "再来一句。"),
    ("Write a limerick.", "Another one, about rain 😀."), ("Who wrote Faust?", "When?"),
    ("Make a shopping list.", "Add apples."), ("Why is the sky blue?", "And at night?"),
)  # fmt: skip


def options(index: int, tokens: int) -> GenerateOptions:
    if index % 2:
        return {"max_tokens": tokens, "temperature": 0.8, "top_p": 0.95, "seed": index}
    return {"max_tokens": tokens}


def sent_whole(engine: Engine, session: Session, text: str, index: int, tokens: int) -> tuple[int, ...]:
    """The answer by an engine that computes every token of the conversation now."""
    turns = [*session.turns, {"role": "user", "content": text}]
    ids = engine.prepare(turns)  # type: ignore[arg-type]
    tenant = (1000 + next(TENANTS)).to_bytes(32, "big")
    whole = engine.complete(ids, **{**options(index, tokens), "tenant": tenant})
    assert whole.usage.cached_tokens == 0
    return whole.token_ids


TENANTS = itertools.count()


def hold_sessions_exact(folder: Path, count: int, tokens: int) -> None:
    path = small_model()
    wanted = list(itertools.islice(itertools.product(SYSTEMS, ASKED), count))
    owners = [index.to_bytes(32, "big") for index in range(len(wanted))]
    firsts = []
    with Engine.load(path, context_tokens=CONTEXT_TOKENS, progress=False) as engine:
        for index, (system, (first, second)) in enumerate(wanted):
            with engine.session(system=system, tenant=owners[index]) as session:
                expected = sent_whole(engine, session, first, index, tokens)
                assert session.generate(first, **options(index, tokens)).token_ids == expected
                expected = sent_whole(engine, session, second, index, tokens)
                if index % 3 == 0:
                    for end in range(3, len(second), 5):
                        session.draft(second[:end] + " wrong")
                        session.draft(second[:end])
                saved = session.save(folder / str(index), KEY)
                assert saved.tokens > 0
                turn = session.generate(second, **options(index, tokens))
                assert turn.token_ids == expected, f"conversation {index}"
                assert turn.usage.cached_tokens >= saved.tokens
                firsts.append((second, expected, saved.tokens))
        assert engine.statistics["kv_blocks_used"] == 0
    # Another process would see the same: nothing of the first engine is left.
    with Engine.load(path, context_tokens=CONTEXT_TOKENS, threads=1, progress=False) as engine:
        for index, (second, expected, saved_tokens) in enumerate(firsts):
            with pytest.raises(SessionForbiddenError):
                engine.restore_session(folder / str(index), KEY, tenant=ALONE)
            with engine.restore_session(folder / str(index), KEY, tenant=owners[index]) as session:
                assert session.kept_tokens == saved_tokens
                turn = session.generate(second, **options(index, tokens))
                assert turn.token_ids == expected, f"conversation {index} after the restart"
                assert turn.usage.cached_tokens == saved_tokens
        assert engine.statistics["kv_blocks_used"] == 0
        damaged = folder / "0"
        damaged.write_bytes(damaged.read_bytes()[:-1] + b"\0")
        with pytest.raises(KvCorruptError):
            engine.restore_session(damaged, KEY, tenant=owners[0])
        assert engine.statistics["kv_blocks_used"] == 0


@pytest.mark.t1
def test_a_few_session_turns_are_the_conversation_sent_whole(tmp_path: Path) -> None:
    hold_sessions_exact(tmp_path, 3, 10)


@pytest.mark.t2
@pytest.mark.timeout(5400)
def test_session_turns_are_the_conversation_sent_whole(tmp_path: Path) -> None:
    hold_sessions_exact(tmp_path, 24, 64)
