"""Many clients at once: throughput, waiting, cancelling, memory, endurance."""

from __future__ import annotations

import asyncio
import contextlib
import random
import statistics
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import aiohttp
from engine import peers
from report import Figure

from serve.asking import ANSWERED, ask, session, words
from serve.servers import KV_BYTES, free_port, llama_command, running

if TYPE_CHECKING:
    from pathlib import Path

    from serve.servers import Server

REQUESTS_PER_CLIENT = 3
CANCELS = 1000
CANCELLING_CLIENTS = 12
BUSY = (429, 529)


@dataclass
class Load:
    """What one run of the mixed traffic showed."""

    seconds: float = 0.0
    output_tokens: int = 0
    first_token_seconds: list[float] = field(default_factory=list)

    @property
    def tokens_per_second(self) -> float:
        """Of all clients together."""
        return self.output_tokens / self.seconds

    @property
    def p95_first_token(self) -> float:
        """Seconds."""
        return statistics.quantiles(self.first_token_seconds, n=20, method="inclusive")[-1]


async def mixed(url: str, clients: int, seed: int) -> Load:
    """So many clients at once, a few turns each: short and long prompts, short and long answers."""
    load = Load()
    systems = [words(random.Random(index), 120) for index in range(4)]  # noqa: S311 - prompts, not secrets

    async def client(number: int) -> None:
        chosen = random.Random(seed * 1000 + number)  # noqa: S311
        messages = [{"role": "system", "content": systems[number % len(systems)]}]
        for _ in range(REQUESTS_PER_CLIENT):
            question = f"Write about {words(chosen, chosen.choice((8, 30, 120)))}."
            messages.append({"role": "user", "content": question})
            answer = await ask(asking, url, messages, chosen.choice((24, 48, 96)))
            load.first_token_seconds.append(answer.first_seconds)
            load.output_tokens += answer.tokens
            messages.append({"role": "assistant", "content": words(chosen, 30)})

    async with session() as asking:
        started = time.perf_counter()
        await asyncio.gather(*(client(number) for number in range(clients)))
        load.seconds = time.perf_counter() - started
    return load


def beside_llama(server: Server, path: Path, threads: int, clients: int, rounds: int) -> list[Figure]:
    """The mixed traffic on both servers in turn."""
    own: list[Load] = []
    other: list[Load] = []
    note = ""
    try:
        port = free_port()
        with running(llama_command(path, threads, port, clients), port) as peer:
            for turn in range(rounds):
                print(f"  traffic, round {turn + 1} of {rounds}", flush=True)
                own.append(asyncio.run(mixed(server.url, clients, turn)))
                other.append(asyncio.run(mixed(peer.url, clients, turn)))
    except (peers.PeerError, OSError, ValueError) as error:
        note = f"no llama-server: {error}"
        own = [asyncio.run(mixed(server.url, clients, turn)) for turn in range(rounds)]
    figures = []
    for name, unit, attribute, target, more_is_better in (
        (f"{clients} clients, mixed chat, all together", "tok/s", "tokens_per_second", 1.5, True),
        (f"{clients} clients, mixed chat, p95 first token", "s", "p95_first_token", 0.6, False),
    ):
        value = statistics.median(getattr(load, attribute) for load in own)
        if not other:
            figures.append(Figure(name, unit, value, note=note))
            continue
        peer_value = statistics.median(getattr(load, attribute) for load in other)
        ratio = value / peer_value
        figures.append(
            Figure(
                name, unit, value, peer="llama-server", peer_value=peer_value, ratio=ratio,
                target=f"{'≥' if more_is_better else '≤'} {target} ×",
                met=ratio >= target if more_is_better else ratio <= target,
            )
        )  # fmt: skip
    return figures


async def _levels(client: aiohttp.ClientSession, url: str) -> dict[str, float]:
    async with client.get(f"{url}/metrics") as page:
        lines = (await page.text()).splitlines()
    pairs = (line.rsplit(" ", 1) for line in lines if line and not line.startswith("#"))
    return {name: float(value) for name, value in pairs}


async def cancels(url: str) -> list[Figure]:
    """Random cancels in every phase: what is left behind, and how soon the engine is free again."""
    chosen = random.Random(5)  # noqa: S311
    numbers = iter(range(CANCELS))

    async def client() -> None:
        async with session() as own:
            for _ in numbers:
                prompt = words(chosen, chosen.choice((5, 60, 400)))
                messages = [{"role": "user", "content": prompt}]
                with contextlib.suppress(asyncio.TimeoutError, RuntimeError):
                    await asyncio.wait_for(ask(own, url, messages, 64), chosen.uniform(0, 0.4))

    await asyncio.gather(*(client() for _ in range(CANCELLING_CLIENTS)))
    waits = []
    async with session() as watching:
        for _ in range(8):
            messages = [{"role": "user", "content": words(chosen, 1500)}]
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(ask(watching, url, messages, 64), chosen.uniform(0.2, 1.0))
            started = time.perf_counter()
            while (await _levels(watching, url))["zlrs_engine_running"] > 0:  # noqa: ASYNC110 - over HTTP
                await asyncio.sleep(0.002)
            waits.append(time.perf_counter() - started)
        await asyncio.sleep(1)
        levels = await _levels(watching, url)
        await ask(watching, url, [{"role": "user", "content": "Say yes."}], 2)
    leaked = levels["zlrs_engine_kv_blocks_used"]
    stuck = levels["zlrs_engine_running"] + levels["zlrs_engine_queued"]
    return [
        Figure(f"{CANCELS} random cancels, blocks leaked", "blocks", leaked, target="0", met=leaked == 0),
        Figure(f"{CANCELS} random cancels, requests stuck", "requests", stuck, target="0", met=stuck == 0),
        Figure(
            "cancel in the middle of a long prompt, until the engine is free, worst of 8", "ms",
            1000 * max(waits), target="≤ 250 ms", met=max(waits) <= 0.25,
        ),
    ]  # fmt: skip


def memory(server: Server, path: Path) -> list[Figure]:
    """Peak of everything before, against what was configured."""
    allowed = (path.stat().st_size + KV_BYTES) * 1.15
    peak = server.peak_bytes
    return [
        Figure(
            "peak memory", "MB", peak / 1e6, peer="arena + weights + 15 %", peer_value=allowed / 1e6,
            ratio=peak / allowed, target="≤ 1 ×", met=peak <= allowed,
        )
    ]  # fmt: skip


async def endurance(server: Server, clients: int, seconds: float) -> list[Figure]:
    """So many clients for so long: errors other than the stated refusals, and growth of memory."""
    until = time.monotonic() + seconds
    errors: list[str] = []
    done = refused = 0
    sizes: list[int] = []

    async def client(number: int) -> None:
        nonlocal done, refused
        chosen = random.Random(number)  # noqa: S311
        async with session() as own:
            while time.monotonic() < until:
                body = {
                    "model": "any", "max_tokens": chosen.choice((4, 16, 32)), "temperature": 0.7,
                    "messages": [{"role": "user", "content": words(chosen, chosen.choice((4, 20, 80)))}],
                }  # fmt: skip
                try:
                    async with own.post(f"{server.url}/v1/chat/completions", json=body) as answer:
                        await answer.read()
                        if answer.status == ANSWERED:
                            done += 1
                        elif answer.status in BUSY:
                            refused += 1
                            await asyncio.sleep(1)
                        else:
                            errors.append(f"{answer.status}")
                except aiohttp.ClientError as error:
                    errors.append(repr(error))

    async def watch() -> None:
        while time.monotonic() < until:
            sizes.append(server.resident_bytes)
            await asyncio.sleep(1)

    await asyncio.gather(watch(), *(client(number) for number in range(clients)))
    third = max(1, len(sizes) // 3)
    growth = statistics.median(sizes[-third:]) / statistics.median(sizes[third : 2 * third]) - 1
    title = f"{clients} clients, {seconds:.0f} s"
    return [
        Figure(
            f"{title}, errors other than 429/529", "errors", len(errors), target="0", met=not errors,
            note=f"{done} answered, {refused} refused" + (f"; {errors[0]}" if errors else ""),
        ),
        Figure(
            f"{title}, growth of memory from the second third to the last", "%", 100 * growth,
            target="≤ 2 %", met=growth <= 0.02,
        ),
    ]  # fmt: skip
