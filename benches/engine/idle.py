"""Processor time of a loaded engine while nothing is asked, as JSON on standard output.

python idle.py MODEL.gguf THREADS
"""

from __future__ import annotations

import json
import os
import sys
import time

import zlrs

SECONDS = 4.0
# Threads that have just worked spin for a moment before they sleep: that belongs to the work.
SETTLING_SECONDS = 0.2


def main() -> None:
    """Answer once, then wait."""
    engine = zlrs.Engine.load(sys.argv[1], threads=int(sys.argv[2]), context_tokens=256)
    engine.generate("The river", max_tokens=16)
    time.sleep(SETTLING_SECONDS)
    start, before = time.perf_counter(), os.times()
    time.sleep(SECONDS)
    seconds, after = time.perf_counter() - start, os.times()
    used = after.user + after.system - before.user - before.system
    print(json.dumps({"seconds": seconds, "processor_seconds": used}))


if __name__ == "__main__":
    main()
