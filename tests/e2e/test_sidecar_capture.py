"""Bodies are kept only where that was asked for: masked, cut, for a time, without credentials."""

from __future__ import annotations

import json
import stat

from support.eventually import eventually
from support.memory_graph import MemoryGraph
from support.mock_upstream import Reply, compressed, messages_reply
from support.running import KEY, message
from zlrs_proxy.capture import Capture
from zlrs_proxy.clock import Clock
from zlrs_proxy.settings import CaptureSettings

CARD = "4111 1111 1111 1111"


def lines(folder) -> list[dict]:
    return [
        json.loads(line)
        for path in sorted((folder / "capture").glob("*.jsonl"))
        for line in path.read_bytes().splitlines()
    ]


async def test_nothing_is_kept_by_default(start_sidecar, upstream, tmp_path) -> None:
    sidecar = await start_sidecar(state_folder=str(tmp_path))
    await sidecar.ask(body=message(f"secret {CARD}"))
    await sidecar.sidecar.stop(0)
    assert not (tmp_path / "capture").exists()
    assert not any(b"secret" in path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())


async def test_both_bodies_are_kept_masked_and_without_credentials(start_sidecar, upstream, tmp_path) -> None:
    sidecar = await start_sidecar(
        graph=MemoryGraph(), state_folder=str(tmp_path), capture=CaptureSettings(enabled=True)
    )
    upstream.default = lambda seen: compressed(messages_reply(seen), "gzip")
    for _ in range(2):
        await sidecar.ask(body=message(f"my card {CARD} ü"))
        await sidecar.settled()
    await sidecar.ask("/v1/files", {"not": "kept"})
    await sidecar.sidecar.stop(0)
    kept = lines(tmp_path)
    assert [line["decision"] for line in kept] == ["miss", "hit"]
    for line in kept:
        assert "my card **** **** **** **** ü" in json.loads(line["request"])["messages"][0]["content"]
        said = json.loads(line["answer"])["content"][0]["text"]
        assert said == "You asked: my card **** **** **** **** ü"
        assert line["status"] == 200
        assert "is_cut" not in line
    assert len({line["request_id"] for line in kept}) == 2
    for path in (tmp_path / "capture").iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert KEY.encode() not in path.read_bytes()


async def test_long_bodies_are_cut_and_a_number_at_the_edge_is_still_masked(
    start_sidecar, upstream, tmp_path
) -> None:
    sidecar = await start_sidecar(
        state_folder=str(tmp_path), capture=CaptureSettings(enabled=True, body_bytes=256)
    )
    body = message("x" * 160 + f" {CARD} " + "y" * 500)
    await sidecar.ask(body=body)
    await sidecar.sidecar.stop(0)
    (line,) = lines(tmp_path)
    assert line["is_cut"] is True
    assert len(line["request"]) <= 256
    assert "4111" not in line["request"]


async def test_only_a_share_is_kept(start_sidecar, upstream, tmp_path) -> None:
    sidecar = await start_sidecar(
        state_folder=str(tmp_path), capture=CaptureSettings(enabled=True, share=0.5)
    )
    upstream.default = lambda _: Reply(body=b"{}")
    for number in range(60):
        await sidecar.ask(body=message(f"{number}"))
    await sidecar.sidecar.stop(0)
    assert 10 < len(lines(tmp_path)) < 50


async def test_old_files_go_at_the_start_though_nothing_is_asked(start_sidecar, tmp_path) -> None:
    folder = tmp_path / "capture"
    folder.mkdir()
    (folder / "00000001_a.jsonl").write_bytes(b"{}\n")
    await start_sidecar(state_folder=str(tmp_path), capture=CaptureSettings(enabled=True))
    await eventually(lambda: not list(folder.iterdir()))


def test_old_files_and_too_many_bytes_go(tmp_path) -> None:
    settings = CaptureSettings(enabled=True, total_bytes=1 << 20, retention_days=2)
    folder = tmp_path / "capture"
    folder.mkdir()
    hour = 500_000
    for age in (100, 49, 40, 3, 2, 1):
        (folder / f"{hour - age:08d}_a.jsonl").write_bytes(b"x" * 300_000)
    (folder / "notes.txt").write_text("not ours")
    Capture(str(tmp_path), settings, Clock()).tidy(hour * 3_600_000)
    left = sorted(path.name for path in folder.glob("*.jsonl"))
    assert left == [f"{hour - age:08d}_a.jsonl" for age in (3, 2, 1)]
    assert (folder / "notes.txt").exists()
