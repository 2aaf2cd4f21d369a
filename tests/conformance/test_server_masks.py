"""Loads with a mask beside the full model: who answers what, receipts, misfires, and `POST /verify`."""

from __future__ import annotations

import asyncio
import json
import threading
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from support.fake_engine import FakeEngine, Script
from support.serving import MODEL, Served, serving
from zlrs.config.model import MaskSettings
from zlrs.engine import Engine
from zlrs.server.misfires import Reruns
from zlrs.server.receipts import ModelFacts
from zlrs.server.variants import Misfires, Variant, Variants
from zlrs.verify import Tally
from zlrs.work import Work

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

AGGRESSIVE = {"X-ZLRS-Compute": "aggressive"}


def variant(core: FakeEngine, settings: MaskSettings | None = None) -> Variant:
    engine = Engine(core, name=MODEL)
    facts = replace(
        ModelFacts.of_engine(engine),
        mask_sum="cd" * 32,
        empty_layers=(1,),
        zero_heads="0.1",
        work=Work(400, 300, 0, 2),
    )
    return Variant(settings or MaskSettings(path="/some/small.mask"), engine, facts, 0.95)


@asynccontextmanager
async def with_mask(
    *, full: str = "full.", masked: str = "masked", settings: MaskSettings | None = None, share: float = 1.0
) -> AsyncIterator[tuple[Served, Variant]]:
    core = FakeEngine(Script(reply=masked))
    async with serving(Script(reply=full)) as served:
        one = variant(core, settings)
        served.context.variants = Variants([one], 0.9)
        served.context.reruns = Reruns(share, served.context.metrics)
        try:
            yield served, one
        finally:
            await served.context.reruns.close()
            one.engine.close()


async def ask(served: Served, headers: dict[str, str] | None = None, **fields: object) -> tuple[dict, dict]:
    body = {
        "model": MODEL, "max_tokens": 32, "temperature": 0, "messages": [{"role": "user", "content": "Hi"}],
        **fields,
    }  # fmt: skip
    async with served.client.post("/v1/messages", json=body, headers=headers) as response:
        assert response.status == 200, await response.text()
        return await response.json(), dict(response.headers)


async def test_exact_requests_are_answered_by_the_full_model_and_others_as_they_allow() -> None:
    async with with_mask() as (served, _):
        body, headers = await ask(served)
        assert body["content"][0]["text"] == "full."
        assert headers["X-ZLRS-Zero-Active"] == "false"
        assert "zero_layer" not in body["zlrs"]
        for mode in ("exact", "legacy", "sparse-state-aware"):
            body, _ = await ask(served, {"X-ZLRS-Compute": mode})
            assert body["content"][0]["text"] == "full."
        body, headers = await ask(served, AGGRESSIVE)
        assert body["content"][0]["text"] == "masked"
        assert headers["X-ZLRS-Zero-Active"] == "true"
        assert headers["X-ZLRS-Model-Info"] == f"{MODEL};zero-layer=1;zero-heads=0.1"
        assert headers["X-ZLRS-Model-Version"].endswith("+cdcdcdcdcdcd")
        assert json.loads(headers["X-ZLRS-Compute-Profile"])["mode"] == "aggressive"
        assert body["zlrs"]["zero_layer"]["mask"] == "small"
        assert body["zlrs"]["zero_layer"]["saved_share"] == 0.25


async def test_streams_are_answered_by_the_masked_load_too() -> None:
    async with with_mask() as (served, one):
        body = {
            "model": MODEL, "max_tokens": 32, "temperature": 0, "stream": True,
            "messages": [{"role": "user", "content": "Hi"}],
        }  # fmt: skip
        async with served.client.post("/v1/messages", json=body, headers=AGGRESSIVE) as response:
            text = await response.text()
        assert '"mask":"small"' in text
        assert "masked" in "".join(
            json.loads(line[6:])["delta"]["text"] for line in text.splitlines() if "text_delta" in line
        )
        await served.context.reruns.idle()
        assert one.misfires.tokens > 0


async def test_the_band_of_temperatures_chooses_among_masks() -> None:
    low = MaskSettings(path="low.mask", temperature_max=0.3)
    async with with_mask(settings=low) as (served, _):
        assert (await ask(served, AGGRESSIVE, temperature=0.3))[0]["content"][0]["text"] == "masked"
        body, headers = await ask(served, AGGRESSIVE, temperature=0.31)
        assert body["content"][0]["text"] == "full."
        assert "unavailable=aggressive" in headers["X-ZLRS-Compute-Profile"]


async def test_a_request_that_requires_exits_is_answered_by_the_load_that_has_them() -> None:
    async with with_mask() as (served, _):
        served.core.can_skip = True
        body, headers = await ask(served, AGGRESSIVE, zlrs={"require_exits": True})
        assert body["content"][0]["text"] == "full."
        assert served.core.submitted[-1]["require_exits"] is True
        assert headers["X-ZLRS-Zero-Active"] == "false"
        body, _ = await ask(served, AGGRESSIVE, zlrs={"require_exits": False})
        assert body["content"][0]["text"] == "masked"


async def test_sessions_are_answered_by_the_full_model() -> None:
    async with with_mask() as (served, _):
        body, headers = await ask(served, {**AGGRESSIVE, "X-ZLRS-Session": "create"})
        assert body["content"][0]["text"] == "full."
        assert headers["X-ZLRS-Zero-Active"] == "false"


async def test_a_rerun_counts_where_the_full_model_would_have_chosen_otherwise() -> None:
    # Both continue what stands there by a fixed text; the masked one errs at its third letter.
    def continues(text: str) -> object:
        return lambda prompt: text[len(prompt) - len("Hi") :] if prompt.startswith("Hi") else ""

    core = FakeEngine(Script(reply=continues("abXdefgh")))
    async with serving(Script(reply=continues("abcdefgh"))) as served:
        one = variant(core)
        served.context.variants = Variants([one], 0.9)
        served.context.reruns = Reruns(1.0, served.context.metrics)
        body, _ = await ask(served, AGGRESSIVE)
        assert body["content"][0]["text"] == "abXdefgh"
        await served.context.reruns.idle()
        # Eight letters and the end of the answer.
        assert (one.misfires.tokens, one.misfires.differing) == (9, 1)
        reruns = [options for options in served.core.submitted if options["priority"] == "batch"]
        assert reruns
        assert all(options["temperature"] == 0 for options in reruns)
        body, _ = await ask(served, AGGRESSIVE)
        assert body["zlrs"]["zero_layer"]["checked_tokens"] == 9
        assert body["zlrs"]["zero_layer"]["misfires"] == 1
        async with served.client.get("/metrics") as response:
            page = await response.text()
        assert 'zlrs_zero_layer_checked_tokens_total{mask="small"} 9' in page
        assert 'zlrs_zero_layer_misfires_total{mask="small"} 1' in page
        await served.context.reruns.idle()
        one.engine.close()


async def test_no_answer_is_rerun_when_none_is_drawn() -> None:
    async with with_mask(share=0.0) as (served, one):
        await ask(served, AGGRESSIVE)
        await served.context.reruns.idle()
        assert one.misfires == Misfires()
        assert len(served.core.submitted) == 0


def test_a_mask_that_misfires_too_often_answers_no_more() -> None:
    core = FakeEngine(Script())
    one = variant(core)
    assert one.may("aggressive", 0.5, 0.9)
    one.misfires.add(499, 400)
    assert one.may("aggressive", 0.5, 0.9)  # too few to say
    one.misfires.add(1, 0)
    assert not one.may("aggressive", 0.5, 0.9)
    one.misfires.add(100_000, 0)
    assert one.may("aggressive", 0.5, 0.9)
    assert not one.may("exact", 0.5, 0.9)
    one.engine.close()


async def test_verify_compares_the_full_model_with_the_masked_one() -> None:
    async with with_mask(full="a", masked="b") as (served, _):
        body = {"prompts": ["One?", "Two?"], "repeats": 6, "max_tokens": 4}
        async with served.client.post("/verify", json=body) as response:
            report = await response.json()
        assert response.status == 200
        assert (report["repeats"], report["prompts"]) == (6, 2)
        assert (report["zombie_layers"], report["token_saving_pct"]) == ([1], 25)
        assert report["identical_answers_pct"] == 0
        assert report["zero_layer"]["mask"] == "small"
        assert {"status", "latency_improvement_ms", "confidence"} <= set(report)
        assert all(options["priority"] == "batch" for options in served.core.submitted)


async def test_what_a_verification_concludes_is_computed_beside_the_event_loop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    concluded_by: list[threading.Thread] = []
    report = Tally.report

    def seen(self: Tally, *args: object, **named: object) -> object:
        concluded_by.append(threading.current_thread())
        return report(self, *args, **named)  # type: ignore[arg-type]  # handed on as they came

    monkeypatch.setattr(Tally, "report", seen)
    async with serving() as served:
        body = {"prompts": ["x"], "repeats": 3, "max_tokens": 2}
        async with served.client.post("/verify", json=body) as response:
            assert response.status == 200, await response.text()
    assert len(concluded_by) == 1
    assert concluded_by[0] is not threading.current_thread()


async def test_verify_says_so_where_there_is_nothing_to_compare() -> None:
    async with (
        serving() as served,
        served.client.post("/verify", json={"prompts": ["x"], "repeats": 3}) as response,
    ):
        report = await response.json()
        assert report["status"] == "no_difference"
        assert "no load with a mask" in report["notes"][0]


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"prompts": []},
        {"prompts": [""]},
        {"prompts": ["x"] * 17},
        {"prompts": ["x" * 4097]},
        {"prompts": ["x"], "repeats": 0},
        {"prompts": ["x"], "repeats": 1001},
        {"prompts": ["x"], "max_tokens": 257},
        {"prompts": ["x"], "repeats": 1000, "max_tokens": 256},
        {"prompts": ["x"], "mode": "exact"},
        {"prompts": ["x"], "unknown": 1},
    ],
)
async def test_verify_is_bounded(body: dict[str, object]) -> None:
    async with serving() as served, served.client.post("/verify", json=body) as response:
        assert response.status == 400, await response.text()
        assert served.core.submitted == []


async def test_one_verification_at_a_time_and_only_for_callers_with_a_key() -> None:
    key = "sk-test-0123456789abcdef"
    async with serving(keys=(key,)) as served:
        async with served.client.post("/verify", json={"prompts": ["x"]}) as response:
            assert response.status == 401
        async with served.context.verifying:
            headers = {"x-api-key": key}
            async with served.client.post("/verify", json={"prompts": ["x"]}, headers=headers) as response:
                assert response.status == 529
                assert response.headers["retry-after"] == "30"


async def test_a_verification_ends_with_its_client() -> None:
    async with serving(Script(hold_before=frozenset({1}))) as served:
        asking = asyncio.ensure_future(
            served.client.post("/verify", json={"prompts": ["x"], "repeats": 5, "max_tokens": 8})
        )
        await asyncio.to_thread(served.script.held.wait, 10)
        asking.cancel()
        for _ in range(500):
            if not served.context.verifying.locked():
                break
            await asyncio.sleep(0.01)
        assert not served.context.verifying.locked()
        assert served.context.admission.in_flight == 0


async def test_verify_asks_what_aggressive_requests_may_leave_out() -> None:
    core = FakeEngine(Script(reply="a"))
    core.can_skip = True
    async with serving(core=core) as served:
        body = {"prompts": ["x"], "repeats": 3, "max_tokens": 2}
        async with served.client.post("/verify", json=body) as response:
            report = await response.json()
        asked = [options["compute"] for options in core.submitted]
        assert (asked.count("exact"), asked.count("aggressive")) == (4, 4)
        # Neurons that are left out are not counted, so that nothing is claimed of the work.
        assert report["token_saving_pct"] is None
        assert report["status"] != "no_difference"
