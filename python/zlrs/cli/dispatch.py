"""`zlrs VERB …`: find the verb, run it, turn failures into messages and exit codes.

Exit codes: 0 done, 1 failed, 2 wrong usage, 130 interrupted.
"""

from __future__ import annotations

import os
import sys
import traceback
from typing import TYPE_CHECKING

from zlrs.cli.output import print_error
from zlrs.cli.parser import USAGE_ERROR, did_you_mean
from zlrs.cli.verbs import all_verbs

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zlrs.cli.verbs import Verb

FAILED = 1
INTERRUPTED = 130


def _help(verbs: dict[str, Verb]) -> str:
    width = max(len(name) for name in verbs)
    lines = "\n".join(f"  {verb.name:<{width}}  {verb.help}" for verb in verbs.values())
    return (
        "usage: zlrs VERB [OPTIONS]\n\n"
        "examples:\n"
        "  zlrs serve smollm2-135m-instruct-q4_1\n"
        "  zlrs models list\n\n"
        f"verbs:\n{lines}\n\n"
        "`zlrs VERB --help` describes a verb. Settings also come from zlrs.toml and ZLRS_* variables."
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command.

    Args:
        arguments: Instead of `sys.argv[1:]`.

    Returns:
        The exit code.
    """
    given = list(sys.argv[1:] if arguments is None else arguments)
    verbs = all_verbs()
    if not given:
        print(_help(verbs), file=sys.stderr)
        return USAGE_ERROR
    name, *rest = given
    if name in {"-h", "--help", "help"}:
        print(_help(verbs))
        return 0
    if name in {"-V", "--version"}:
        name = "version"
    if name not in verbs:
        known = f"Verbs: {', '.join(verbs)}"
        print_error(f"zlrs has no verb {name!r}", did_you_mean(name, verbs) or known)
        return USAGE_ERROR
    return _run(verbs[name], rest)


def _run(verb: Verb, arguments: Sequence[str]) -> int:
    try:
        code = verb.load()(arguments)
        sys.stdout.flush()
    except SystemExit as leaving:
        return leaving.code if isinstance(leaving.code, int) else FAILED
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # The reader of our output has seen enough; that is no failure.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Exception as error:  # noqa: BLE001 - whatever it is, the user gets a message and an exit code
        return _report(error)
    return code


def _report(error: Exception) -> int:
    message = getattr(error, "message", None)
    if isinstance(message, str):
        print_error(message, getattr(error, "suggestion", None) or "")
    else:
        traceback.print_exc()
        print_error(f"this is a fault of zlrs: {error!r}", "Please report it with the lines above")
    return FAILED
