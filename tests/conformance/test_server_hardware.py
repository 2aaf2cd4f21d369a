"""What receipts and probes say of the hardware: mode and precision now, a device that is lost."""

from __future__ import annotations

import json

from support.fake_engine import FakeEngine
from support.serving import MODEL, serving

BODY = {"model": MODEL, "max_tokens": 4, "messages": [{"role": "user", "content": "hi"}]}


def reduced(precision: str) -> FakeEngine:
    core = FakeEngine()
    core.kv_precision = precision
    return core


async def test_receipts_tell_the_mode_and_the_precision_of_the_moment() -> None:
    async with serving(core=reduced("governed")) as served:
        for now in (("fallback", "f16"), ("hbm_optimized", "q4"), ("thermal_throttled", "q4")):
            served.core.hardware_now = now
            async with served.client.post("/v1/messages", json=BODY) as response:
                profile = json.loads(response.headers["X-ZLRS-Compute-Profile"])
            assert (profile["hardware_mode"], profile["kv_precision"]) == now
            assert profile["mode"] == "reduced-kv"


async def test_exactness_is_refused_where_keys_and_values_are_reduced() -> None:
    async with serving(core=reduced("q8")) as served:
        for mode in ("exact", "legacy"):
            headers = {"X-ZLRS-Compute": mode}
            async with served.client.post("/v1/messages", json=BODY, headers=headers) as response:
                assert response.status == 400
                assert (await response.json())["error"]["type"] == "compute_profile_mismatch"
    async with (
        serving() as served,
        served.client.post("/v1/messages", json=BODY, headers={"X-ZLRS-Compute": "exact"}) as response,
    ):
        assert response.status == 200


async def test_a_lost_device_is_not_ready() -> None:
    async with serving() as served:
        for lost, status in ((False, 200), (True, 503), (False, 200)):
            served.core.backend_lost = lost
            async with served.client.get("/readyz") as response:
                assert response.status == status
                assert ((await response.json())["status"] == "failed") is lost
            async with served.client.get("/livez") as response:
                assert response.status == 200
            async with served.client.get("/metrics") as response:
                text = await response.text()
            assert f"zlrs_ready {0 if lost else 1}" in text
            assert f"zlrs_engine_backend_lost {int(lost)}" in text
