"""The verbs of `zlrs`: our own by name, others from the entry-point group `zlrs.commands`.

A verb is a function of its arguments (without the verb) that returns the exit code.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, NamedTuple, cast

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUP = "zlrs.commands"

Command = Callable[[Sequence[str]], int]


class Verb(NamedTuple):
    """A verb with its one-line help; the code is imported when it is used."""

    name: str
    help: str
    load: Callable[[], Command]


def _own(module: str) -> Callable[[], Command]:
    return lambda: cast("Command", import_module(module).command)


def _foreign(point: EntryPoint) -> Callable[[], Command]:
    return lambda: cast("Command", point.load())


OWN = (
    Verb("serve", "answer the Messages and Chat APIs with a local model", _own("zlrs.cli.serve")),
    Verb("models", "fetch, list, check and remove model files", _own("zlrs.cli.models")),
    Verb("perplexity", "measure how well a model predicts a text", _own("zlrs.cli.perplexity")),
    Verb("profile", "measure what every part of a model does", _own("zlrs.cli.profile")),
    Verb("mask", "make, show and check masks that leave parts of a model out", _own("zlrs.cli.mask")),
    Verb("verify", "compare full answers with those that leave work out", _own("zlrs.cli.verify")),
    Verb(
        "neurons", "find and show thresholds under which neurons count for nothing", _own("zlrs.cli.neurons")
    ),
    Verb("drafts", "find the parts a model can guess its own tokens without", _own("zlrs.cli.drafts")),
    Verb("exits", "train and show heads that let rows leave early", _own("zlrs.cli.exits")),
    Verb("ring", "fit and show heads that mark wrong tokens", _own("zlrs.cli.ring")),
    Verb("systems", "print what zlrs consists of and what is real today", _own("zlrs.cli.systems")),
    Verb("config", "check and show the configuration", _own("zlrs.cli.config")),
    Verb("graph", "look at, check and clear a decision graph", _own("zlrs.cli.graph")),
    Verb("audit", "check and read the audit log of a decision graph", _own("zlrs.cli.audit")),
    Verb("doctor", "check what this machine has for zlrs", _own("zlrs.cli.doctor")),
    Verb("build-info", "print what this build is", _own("zlrs.cli.build_info")),
    Verb("version", "print the version", _own("zlrs.cli.version")),
)

FOREIGN_HELP = {
    "proxy": "the sidecar: answer what is proven, forward the rest",
    "cost": "what calls cost and what was saved, from the sidecar's ledger",
}


def all_verbs() -> dict[str, Verb]:
    """Every verb by name; an installed package cannot replace one of ours."""
    verbs = {
        point.name: Verb(point.name, FOREIGN_HELP.get(point.name, f"from {point.value}"), _foreign(point))
        for point in entry_points(group=GROUP)
    }
    return verbs | {verb.name: verb for verb in OWN}
