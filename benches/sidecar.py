"""The sidecar beside a bare relay of the same library, LiteLLM and Portkey, on one upstream, in one run.

    python benches/sidecar.py [--quick] [--no-peers] [--soak MINUTES] [--only PARTS]

What is measured runs on one core, upstream and load on another. Arms take turns: call by call with one
connection, in short windows with many; the median of the windows counts. A peer that is not in the cache is
installed there first (`~/.cache/zlrs/bench`), and left out with the reason when that fails.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time

from report import Figure, show, write_report
from sidecar_figures import latency, memory, soak, streams, throughput
from sidecar_gone import gone
from sidecar_peers import peers
from sidecar_report import write_page
from sidecar_setup import HERE, PATH, Bench, decision, prepared, resident_mb


def main() -> None:
    """Measure and report."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--quick", action="store_true", help="a tenth of the work, for trying it out")
    parser.add_argument("--no-peers", action="store_true", help="leave LiteLLM and Portkey out")
    parser.add_argument("--soak", type=float, default=0.0, metavar="MINUTES", help="also this long")
    parser.add_argument("--only", metavar="PARTS", help="of latency,throughput,streams,gone,memory,peers")
    options = parser.parse_args()
    parts = (
        options.only.split(",") if options.only else ["latency", "throughput", "streams", "gone", "memory"]
    )
    if not options.only and not options.no_peers:
        parts.append("peers")
    with prepared() as bench:
        figures = measure(bench, parts, quick=options.quick)
        if options.soak:
            figures += soak(bench, options.soak)
    if options.only:
        show("proxy", figures)
    else:
        write_report("proxy", figures)
        write_page(figures)


def measure(bench: Bench, parts: list[str], *, quick: bool) -> list[Figure]:
    """The named parts, on processes that are started here."""
    scale = 1 if quick else 10
    bare = [sys.executable, str(HERE / "proxy" / "bare.py")]
    relay = bench.start([*bare, "relay", f"http://{bench.upstream}"], bench.core)
    sidecar, process = bench.sidecar()
    plain, _ = bench.sidecar(graph=False)
    addresses = {"relay": f"127.0.0.1:{relay}", "sidecar": sidecar, "no graph": plain}
    cold = resident_mb(process)
    bench.load("load", ("warm", sidecar, bench.repeated), calls=1)
    time.sleep(0.5)
    for body, expected in ((bench.sampled, "skipped"), (bench.unique, "miss"), (bench.repeated, "hit")):
        decision(sidecar, body, expected)
    # What a hit is measured against is the very bytes of the hit.
    command = [bench.wire, "call", "--path", PATH, "--target", f"hit={sidecar}={bench.repeated}"]
    content = bench.folder / "hit.json"
    content.write_bytes(subprocess.run(command, capture_output=True, check=True).stdout)
    port = bench.start([*bare, "answer", str(content)], bench.core)
    addresses["answer"] = f"127.0.0.1:{port}"
    figures: list[Figure] = []
    if "latency" in parts:
        figures += latency(bench, addresses, 300 * scale)
    if "throughput" in parts:
        figures += throughput(bench, addresses, max(2, scale // 2), 1 if quick else 2)
    if "streams" in parts:
        figures += streams(bench, addresses, max(1, scale // 3))
    if "gone" in parts:
        figures += gone(bench, 3 * scale)
    if "memory" in parts:
        figures += memory(process, cold)
    if "peers" in parts:
        figures += peers(bench, addresses, 1 if quick else 4)
    return figures


if __name__ == "__main__":
    main()
