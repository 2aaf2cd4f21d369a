"""`zlrs perplexity`: how well a model predicts a text."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from zlrs import _core
from zlrs.cli.output import note
from zlrs.cli.parser import Parser
from zlrs.errors import InvalidRequestError, NotFoundError, from_core
from zlrs.models import resolve

if TYPE_CHECKING:
    from collections.abc import Sequence

EPILOG = """\
examples:
  zlrs perplexity qwen2.5-coder-0.5b-instruct-q4_k_m book.txt
  zlrs perplexity ./model.gguf book.txt --window 2048 --windows 8 --json

The text is cut into windows. Each is computed by itself, and the tokens of its second half are scored: the
protocol of llama.cpp's llama-perplexity, so that figures for the same text, window and model compare.
Lower is better; 1 would be a text known by heart.
"""


def command(arguments: Sequence[str]) -> int:
    """Measure and print one figure."""
    parser = Parser("zlrs perplexity", "Measure how well a model predicts a text.", EPILOG)
    add = parser.add_argument
    add("model", help="name from `zlrs models list`, path or URL of a GGUF file")
    add("text", metavar="FILE", help="the text, in UTF-8; - reads standard input")
    add("--window", type=int, default=512, metavar="TOKENS", help="tokens of a window (512)")
    add("--windows", type=int, metavar="N", help="at most this many (all that the text fills)")
    add("--threads", type=int, metavar="N", help="worker threads (the cores this process has)")
    add("--json", action="store_true", help="as JSON")
    options = parser.parse_args(arguments)
    text = _read(options.text)
    model = resolve(options.model)
    try:
        measured = _core.perplexity(
            model,
            text,
            threads=options.threads,
            window_tokens=options.window,
            windows=options.windows,
            progress=lambda done, total: note(f"window {done} of {total}"),
        )
    except _core.CoreError as error:
        raise from_core(error) from None
    if options.json:
        print(json.dumps(measured))
    else:
        print(
            f"perplexity {measured['perplexity']:.4f} ± {measured['error']:.4f}"
            f" ({measured['scored_tokens']} tokens scored in {measured['windows']} windows)"
        )
    return 0


def _read(name: str) -> str:
    try:
        data = sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()
        return data.decode()
    except UnicodeDecodeError as error:
        raise InvalidRequestError(f"{name} is not UTF-8 (byte {error.start})") from None
    except OSError as error:
        raise NotFoundError(f"{name} cannot be read: {error.strerror}") from None
