"""A support assistant behind the sidecar: what is asked again is answered from the graph, with a receipt.

Starts the engine and the sidecar on free loopback ports, asks four questions with the official `anthropic`
client at temperature 0, and prints what decided each. Exits 0 only when the repeat came from the graph,
byte-equal and without a call to the engine, and the other questions reached the engine.

Run it with `make run`, or `python examples/support_desk.py --model NAME [--keep]`.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anthropic
from rich.console import Console
from rich.table import Table

if TYPE_CHECKING:
    from collections.abc import Iterator

SYSTEM = """You are the support assistant of a small bookshop.
Answer in one or two short sentences, only from the policy and the orders below.

Returns policy: an unread book can be returned within 30 days of delivery. Gift cards cannot be returned.

| order | item | status | date |
|---|---|---|---|
| 1042 | Atlas of Rivers | delivered | 2 March |
| 1043 | The Quiet Mountains | shipped | 9 March |
| 1044 | Gift card | paid | 20 February |
"""
ORDER_1042 = "Which item is in order 1042, and what is its status?"
QUESTIONS = (
    ("first", ORDER_1042),
    ("the same again", ORDER_1042),
    ("another order", ORDER_1042.replace("1042", "1043")),
    ("other punctuation", ORDER_1042.rstrip("?")),
)
START_TIMEOUT_S = 120.0
MAX_TOKENS = 64


@dataclass(frozen=True)
class Answer:
    """One answer with what the client saw of it."""

    label: str
    text: str
    decision: str
    first_token_ms: float
    total_ms: float
    input_tokens: int
    output_tokens: int
    engine_calls: int

    @property
    def decided(self) -> str:
        """`graph/ROUTE` for a hit, else `forward`."""
        route = re.match(r"hit;route=(\w+)", self.decision)
        return f"graph/{route[1]}" if route else "forward"


@contextlib.contextmanager
def started(name: str, *arguments: str) -> Iterator[str]:
    """Run `zlrs NAME …` until the block ends; yields the address it prints."""
    command = [sys.executable, "-m", "zlrs", name, *arguments]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    timer = threading.Timer(START_TIMEOUT_S, process.kill)
    timer.start()
    try:
        address = None
        for line in process.stdout or ():
            if found := re.search(r"http://\S+", line):
                address = found[0].rstrip("/")
                break
        if address is None:
            raise SystemExit(f"`zlrs {name}` ended before it was ready (see above)")
        timer.cancel()
        yield address
    finally:
        timer.cancel()
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if process.stdout is not None:
            process.stdout.close()


def wait_until_ready(engine: str) -> None:
    """Poll the engine's readiness until its model is loaded."""
    deadline = time.monotonic() + START_TIMEOUT_S
    while time.monotonic() < deadline:
        with contextlib.suppress(OSError), urllib.request.urlopen(f"{engine}/readyz", timeout=5) as response:
            if response.status == 200:
                return
        time.sleep(0.1)
    raise SystemExit(f"the engine at {engine} was not ready within {START_TIMEOUT_S:.0f} s")


def engine_calls(engine: str) -> int:
    """How many Messages requests the engine has received, from its own metrics."""
    with urllib.request.urlopen(f"{engine}/metrics", timeout=5) as response:
        text = response.read().decode()
    lines = re.findall(r"^zlrs_requests_total\{([^}]*)\} (\S+)$", text, flags=re.MULTILINE)
    return sum(int(float(value)) for labels, value in lines if "messages" in labels and "count" not in labels)


def ask(client: anthropic.Anthropic, engine: str, model: str, label: str, question: str) -> Answer:
    """Ask one question as a stream and measure it."""
    before = engine_calls(engine)
    began = time.perf_counter()
    first = None
    pieces: list[str] = []
    input_tokens = output_tokens = 0
    stream: Any = client.messages.create(
        model=model,
        system=SYSTEM,
        messages=[{"role": "user", "content": question}],
        max_tokens=MAX_TOKENS,
        stream=True,
        extra_body={"temperature": 0},  # today's client has no parameter of its own for it
    )
    decision = stream.response.headers.get("x-zlrs-decision", "")
    for event in stream:
        if event.type == "message_start":
            input_tokens = event.message.usage.input_tokens
        elif event.type == "content_block_delta":
            first = first or time.perf_counter()
            pieces.append(event.delta.text)
        elif event.type == "message_delta":
            output_tokens = event.usage.output_tokens
    ended = time.perf_counter()
    return Answer(
        label,
        "".join(pieces),
        decision,
        ((first or ended) - began) * 1000,
        (ended - began) * 1000,
        input_tokens,
        output_tokens,
        engine_calls(engine) - before,
    )


def show(answers: list[Answer], console: Console) -> None:
    """The table and the answers themselves."""
    table = Table(title="Four questions through the sidecar", title_justify="left")
    for heading in ("question", "decided by"):
        table.add_column(heading)
    for heading in ("first token", "total", "tokens in/out", "engine calls"):
        table.add_column(heading, justify="right")
    table.add_column("X-ZLRS-Decision", overflow="fold")
    for answer in answers:
        table.add_row(
            answer.label,
            answer.decided,
            f"{answer.first_token_ms:.1f} ms",
            f"{answer.total_ms:.1f} ms",
            f"{answer.input_tokens}/{answer.output_tokens}",
            str(answer.engine_calls),
            answer.decision,
        )
    console.print(table)
    for answer in answers:
        console.print(f"{answer.label}: {answer.text.strip()}", highlight=False, markup=False)


def check(answers: list[Answer]) -> list[str]:
    """What did not hold, in words; empty when all is as promised."""
    first, repeat, other, punctuation = answers
    problems = []
    if not first.text:
        problems.append("the first answer is empty")
    if repeat.decided != "graph/same" or repeat.engine_calls != 0:
        problems.append("the repeat was not answered from the graph alone")
    if repeat.text != first.text:
        problems.append("the repeat's text differs from the first answer")
    problems += [
        f"the question with {answer.label} did not reach the engine"
        for answer in (first, other, punctuation)
        if answer.decided != "forward" or answer.engine_calls != 1
    ]
    return problems


def main() -> int:
    """Run the demonstration; 0 when every promise held."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--model", required=True, help="a known name or the path of a .gguf file")
    parser.add_argument("--keep", action="store_true", help="leave engine and sidecar running until Ctrl-C")
    options = parser.parse_args()
    console = Console(width=None if sys.stdout.isatty() else 150)
    with contextlib.ExitStack() as stack:
        store = stack.enter_context(tempfile.TemporaryDirectory(prefix="zlrs-demo-"))
        console.print(f"starting the engine with {options.model} …")
        engine = stack.enter_context(started("serve", options.model, "--port", "0"))
        wait_until_ready(engine)
        console.print(f"engine at {engine}; starting the sidecar …")
        sidecar = stack.enter_context(
            started("proxy", "--upstream", engine, "--port", "0", "--store", str(Path(store) / "graph"))
        )
        console.print(f"sidecar at {sidecar}; asking …")
        model = Path(options.model).stem if os.sep in options.model else options.model
        client = stack.enter_context(
            anthropic.Anthropic(base_url=sidecar, api_key="demonstration", max_retries=0, timeout=600)
        )
        answers = [ask(client, engine, model, label, question) for label, question in QUESTIONS]
        show(answers, console)
        problems = check(answers)
        for problem in problems:
            console.print(f"not as promised: {problem}", style="bold red")
        address = sidecar if options.keep else "http://127.0.0.1:8788"
        console.print(f"\nengine   {engine}\nsidecar  {sidecar}")
        if not options.keep:
            console.print(
                "Both stop now. To keep them running: `make run KEEP=1`, or by hand:\n"
                f"  .venv/bin/zlrs serve {options.model} --port 8787\n"
                "  .venv/bin/zlrs proxy --upstream http://127.0.0.1:8787 --port 8788",
                highlight=False,
            )
        console.print(
            "Then ask by hand (twice: the second answer comes from the graph):\n"
            f"  curl -si {address}/v1/messages -H 'content-type: application/json' \\\n"
            "    -H 'x-api-key: demonstration' \\\n"
            f'    -d \'{{"model":"{model}","max_tokens":64,"temperature":0,'
            '"messages":[{"role":"user","content":"Name three rivers."}]}\'',
            highlight=False,
            markup=False,
            soft_wrap=True,
        )
        if options.keep:
            console.print("Ctrl-C stops both.")
            with contextlib.suppress(KeyboardInterrupt):
                signal.pause()
    return 1 if problems else 0


if __name__ == "__main__":
    raise SystemExit(main())
