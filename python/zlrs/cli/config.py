"""`zlrs config check|show|schema`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import msgspec

from zlrs.cli.parser import Parser
from zlrs.config import load, schema

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zlrs.config import Loaded


def command(arguments: Sequence[str]) -> int:
    """Check or show the settings of all layers together."""
    parser = Parser(
        "zlrs config",
        "Check and show the configuration.",
        "layers, later ones win: defaults, $XDG_CONFIG_HOME/zlrs/zlrs.toml, ./zlrs.toml (or --config,\n"
        "ZLRS_CONFIG), ZLRS_SECTION_KEY variables, flags\n",
    )
    parser.add_argument(
        "action",
        choices=["check", "show", "schema"],
        help="check: exit 1 on any error; show: the settings in force; schema: JSON schema of zlrs.toml",
    )
    parser.add_argument("file", nargs="?", help="the file instead of ./zlrs.toml")
    parser.add_argument("--config", metavar="FILE", help="the same")
    parser.add_argument("--origin", action="store_true", help="show: name the layer each value came from")
    parser.add_argument("--json", action="store_true", help="show: as JSON")
    options = parser.parse_args(arguments)
    if options.action == "schema":
        print(json.dumps(schema(), indent=2))
        return 0
    loaded = load(file=options.file or options.config)
    if options.action == "check":
        print("the configuration is good")
    else:
        print(_shown(loaded, origin=options.origin, as_json=options.json))
    return 0


def _shown(loaded: Loaded, *, origin: bool, as_json: bool) -> str:
    tree = msgspec.to_builtins(loaded.config)
    if as_json:
        if origin:
            tree = {
                section: {"value": values, "origin": loaded.origins[section]}
                if isinstance(values, list)
                else {
                    key: {"value": value, "origin": loaded.origins[f"{section}.{key}"]}
                    for key, value in values.items()
                }
                for section, values in tree.items()
            }
        return json.dumps(tree, indent=2)
    lines = []
    for section, values in tree.items():
        if isinstance(values, list):
            for entry in values:
                lines.append(f"[[{section}]]" + (f"  # {loaded.origins[section]}" if origin else ""))
                lines += [f"{key} = {_toml(value)}" for key, value in entry.items() if value is not None]
                lines.append("")
            continue
        lines.append(f"[{section}]")
        for key, value in values.items():
            # What TOML cannot say, an absent value, is shown as a comment.
            line = f"# {key} is not set" if value is None else f"{key} = {_toml(value)}"
            lines.append(f"{line}  # {loaded.origins[f'{section}.{key}']}" if origin else line)
        lines.append("")
    return "\n".join(lines).rstrip()


def _toml(value: object) -> str:
    """A value as TOML writes it; JSON but for tables."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(key)} = {json.dumps(item)}" for key, item in value.items()) + "}"
    return json.dumps(value)
