"""What is not computed twice: a known prefix, the turns of a conversation, the prompt of branches."""

from __future__ import annotations

import random
import statistics
import time

from report import Figure

from serve.asking import ask, session, words

SHARED_WORDS = 2000
NEW_WORDS = 22
"""With the words of the chat template about 32 new tokens."""
BRANCH_WORDS = 1000
BRANCH_TOKENS = 24
TAGS = ("en", "fr", "de", "es")


async def first_token(url: str, rounds: int) -> list[Figure]:
    """First token with an unknown 2k-token prefix, and with a known one and 32 new tokens."""
    chosen = random.Random(7)  # noqa: S311 - prompts, not secrets
    cold, warm = [], []
    async with session() as client:
        for turn in range(rounds + 1):
            shared = words(chosen, SHARED_WORDS)
            for times in (cold, warm):
                new = words(chosen, NEW_WORDS)
                messages = [{"role": "system", "content": shared}, {"role": "user", "content": new}]
                answer = await ask(client, url, messages, 2)
                if turn:  # the first round warms pages
                    times.append(answer.first_seconds)
    unknown, known = 1000 * statistics.median(cold), 1000 * statistics.median(warm)
    return [
        Figure(
            "first token, 2k-token shared prefix + 32 new, warm", "ms", known, peer="cold",
            peer_value=unknown, ratio=unknown / known, target="≥ 40 times faster", met=unknown / known >= 40,
        )
    ]  # fmt: skip


async def second_turn(url: str, rounds: int) -> list[Figure]:
    """The second turn of a 2k-token conversation, beside the same conversation sent whole to someone new."""
    chosen = random.Random(11)  # noqa: S311
    whole, saved = [], []
    async with session() as client:
        for turn in range(rounds):
            messages = [{"role": "user", "content": words(chosen, SHARED_WORDS)}]
            answer = await ask(client, url, messages, 24, tenant=f"talker-{turn}-0000")
            messages += [
                {"role": "assistant", "content": answer.text},
                {"role": "user", "content": words(chosen, NEW_WORDS)},
            ]
            known = await ask(client, url, messages, 8, tenant=f"talker-{turn}-0000")
            unknown = await ask(client, url, messages, 8, tenant=f"stranger-{turn}-0000")
            if known.text != unknown.text:
                raise RuntimeError("reuse changed an answer")
            whole.append(unknown.seconds)
            saved.append(1 - known.seconds / unknown.seconds)
    share = statistics.median(saved)
    return [
        Figure(
            "second turn of a conversation, share of the time saved at 2k tokens", "", share,
            peer="sent whole without reuse, s", peer_value=statistics.median(whole), ratio=share,
            target="≥ 0.63 (aim 0.9)", met=share >= 0.63,
        )
    ]  # fmt: skip


async def branches(url: str, rounds: int) -> list[Figure]:
    """Four branches on one 1k prompt, against four calls of people who know nothing of each other."""
    chosen = random.Random(13)  # noqa: S311
    together, apart, again = [], [], []
    async with session() as client:
        for turn in range(rounds):
            question = words(chosen, BRANCH_WORDS)
            body = {
                "model": "any", "max_tokens": BRANCH_TOKENS, "temperature": 0,
                "messages": [{"role": "user", "content": question}],
                "zlrs": {"branches": [{"tag": tag} for tag in TAGS]},
            }  # fmt: skip
            headers = {"authorization": f"Bearer branches-{turn}-0000"}
            started = time.perf_counter()
            async with client.post(f"{url}/v1/chat/completions", json=body, headers=headers) as answer:
                made = await answer.json()
            together.append(time.perf_counter() - started)
            texts = [choice["message"]["content"] for choice in made["choices"]]
            names = ("English", "French", "German", "Spanish")
            for times, tenant in ((apart, "caller-{}-{}-0000"), (again, "one-caller-{}-0000")):
                total = 0.0
                for index, name in enumerate(names):
                    messages = [{"role": "user", "content": f"{question}\n\nAnswer in {name}."}]
                    one = await ask(client, url, messages, BRANCH_TOKENS, tenant=tenant.format(turn, index))
                    if one.text != texts[index]:
                        raise RuntimeError("a branch differs from its own call")
                    total += one.seconds
                times.append(total)
    value, peer, warm = (statistics.median(times) for times in (together, apart, again))
    return [
        Figure(
            "four branches on one 1k prompt", "s", value, peer="four separate calls", peer_value=peer,
            ratio=peer / value, target="≥ 2.5 times faster", met=peer / value >= 2.5,
            note=f"four calls one after the other that share the prefix: {warm:.2f} s",
        )
    ]  # fmt: skip
