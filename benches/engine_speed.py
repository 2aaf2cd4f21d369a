"""Tokens per second of the engine alone: prefill of 512 tokens, decode after a short and a long prompt.

    python benches/engine_speed.py --model NAME [--threads N] [--rounds 7]

Medians over interleaved rounds; the engine's own clocks (prefill and decode time of each request).
"""

from __future__ import annotations

import argparse
import statistics

from report import Figure, write_report

import zlrs

PREFILL_TOKENS = 512
LONG_TOKENS = 2048
DECODE_TOKENS = 64
WORD = " river"


def main() -> None:
    """Measure and report."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--model", required=True)
    parser.add_argument("--threads", type=int, default=None)
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    prefill: list[float] = []
    short: list[float] = []
    long: list[float] = []
    with zlrs.Engine.load(options.model, threads=options.threads) as engine:
        info = engine.info()
        for turn in range(options.rounds + 1):
            first = engine.generate(WORD * PREFILL_TOKENS, max_tokens=DECODE_TOKENS)
            second = engine.generate(WORD * LONG_TOKENS, max_tokens=DECODE_TOKENS)
            if turn:  # the first round warms caches and pages
                prefill.append(1000 * first.usage.input_tokens / first.timings.prefill_ms)
                short.append(1000 * (first.usage.output_tokens - 1) / first.timings.decode_ms)
                long.append(1000 * (second.usage.output_tokens - 1) / second.timings.decode_ms)
            print(f"round {turn} of {options.rounds}", flush=True)
    name, threads = str(info["name"]), info["threads"]
    write_report(
        f"engine-speed-{options.model.rsplit('/', 1)[-1].removesuffix('.gguf')}",
        [
            Figure(
                f"prefill, {PREFILL_TOKENS} tokens, {name}, {threads} threads",
                "tok/s",
                statistics.median(prefill),
            ),
            Figure(f"decode after {PREFILL_TOKENS} tokens, {name}", "tok/s", statistics.median(short)),
            Figure(f"decode after {LONG_TOKENS} tokens, {name}", "tok/s", statistics.median(long)),
        ],
    )


if __name__ == "__main__":
    main()
