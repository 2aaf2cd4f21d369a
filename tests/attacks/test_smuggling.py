"""Hundreds of requests that two servers could read in two ways: each is refused, or one to both."""

from __future__ import annotations

import asyncio
import contextlib

import pytest
import pytest_asyncio

from support.running import raw_connection
from support.smuggling import ONE, PAYLOADS, REFUSED, Payload
from support.strict_http import StrictUpstream

FAMILIES = sorted({payload.family for payload in PAYLOADS})


@pytest_asyncio.fixture
async def strict():
    upstream = StrictUpstream()
    await upstream.start()
    yield upstream
    await upstream.stop()


async def sent(port: int, payload: bytes) -> bytes:
    """What comes back until the connection ends, or is silent for a moment after a whole answer."""
    got = b""
    async with raw_connection(port) as (reader, writer):
        writer.write(payload)
        with contextlib.suppress(ConnectionError, asyncio.TimeoutError):
            await writer.drain()
            while piece := await asyncio.wait_for(reader.read(65_536), 1.5 if not got else 0.05):
                got += piece
    return got


def wrong(payload: Payload, got: bytes, strict: StrictUpstream) -> str:
    """What is not as it must be; empty when all is."""
    if strict.faults:
        return f"the upstream got what can be read in two ways: {strict.faults}"
    paths = [read.path for read in strict.requests]
    if b"/smuggled" in paths:
        return "the hidden request reached the upstream"
    if payload.outcome == REFUSED:
        if paths:
            return f"reached the upstream: {strict.requests[0].line!r} {strict.requests[0].body[:40]!r}"
        if got and (not got.startswith(b"HTTP/1.") or got[9:10] not in {b"4", b"5"}):
            return f"was answered {got[:40]!r}"
        return ""
    if len(paths) != 1:
        return f"{len(paths)} requests reached the upstream, answered {got[:60]!r}"
    if strict.requests[0].body != payload.body:
        return f"another body reached the upstream: {strict.requests[0].body[:60]!r}"
    names = {name.lower() for name, _ in strict.requests[0].headers}
    if payload.family == "trailer" and names & {b"x-plain", b"x-api-key"}:
        return "a trailer became a header"
    return "" if got.startswith(b"HTTP/1.1 200") else f"was answered {got[:40]!r}"


@pytest.mark.parametrize("family", FAMILIES)
async def test_what_can_be_read_in_two_ways_is_refused_or_one(start_sidecar, strict, family) -> None:
    sidecar = await start_sidecar(upstream=strict.url, header_seconds=0.6, body_seconds=0.6)
    failures = []
    for payload in PAYLOADS:
        if payload.family != family:
            continue
        strict.requests.clear()
        strict.faults.clear()
        got = await sent(sidecar.port, payload.sent)
        if problem := wrong(payload, got, strict):
            failures.append(f"{payload.name}: {problem}")
    assert not failures, f"{len(failures)} of the family:\n" + "\n".join(failures)
    assert (await sidecar.ask("/v1/x", {"a": 1})).status == 200


def test_there_are_hundreds_of_payloads(capsys) -> None:
    names = [(payload.family, payload.name) for payload in PAYLOADS]
    assert len(set(names)) == len(names)
    assert len(PAYLOADS) >= 400
    assert {payload.outcome for payload in PAYLOADS} == {ONE, REFUSED}
    with capsys.disabled():
        counts = ", ".join(f"{sum(one.family == family for one in PAYLOADS)} {family}" for family in FAMILIES)
        print(f"\n{len(PAYLOADS)} payloads: {counts}")
