"""What receipts and probes say of the hardware: mode and precision now, a device that is lost."""

from __future__ import annotations

import json

from support.fake_engine import FakeEngine
from support.serving import MODEL, Served, serving

BODY = {"model": MODEL, "max_tokens": 4, "messages": [{"role": "user", "content": "hi"}]}


async def profile_of(served: Served, compute: str) -> tuple[object, ...]:
    headers = {"X-ZLRS-Compute": compute}
    async with served.client.post("/v1/messages", json=BODY, headers=headers) as response:
        assert response.status == 200
        profile = json.loads(response.headers["X-ZLRS-Compute-Profile"])
    return profile["mode"], profile["hardware_mode"], profile["kv_precision"]


async def test_receipts_tell_the_mode_and_the_precision_of_the_moment_and_exactness_keeps_f16() -> None:
    core = FakeEngine()
    core.kv_precision, core.can_skip = "governed", True
    async with serving(core=core) as served:
        for now in (("fallback", "f16"), ("hbm_optimized", "q4"), ("thermal_throttled", "q4")):
            core.hardware_now = now
            assert await profile_of(served, "aggressive") == ("aggressive", *now)
            assert await profile_of(served, "exact") == ("exact", "cpu", "f16")
            assert await profile_of(served, "legacy") == ("legacy", "cpu", "f16")


async def test_without_the_setting_nothing_is_reduced() -> None:
    core = FakeEngine()
    core.can_skip, core.hardware_now = True, ("hbm_optimized", "q4")
    async with serving(core=core) as served:
        assert await profile_of(served, "aggressive") == ("aggressive", "cpu", "f16")


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
