"""Where settings come from: files, environment variables, flags. Each layer is a plain tree with a name."""

from __future__ import annotations

import os
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple, Union

import msgspec

from zlrs.config.errors import ConfigError
from zlrs.config.model import Config
from zlrs.config.names import lists, nearest, section_keys, sections

if TYPE_CHECKING:
    from collections.abc import Mapping

FILE_NAME = "zlrs.toml"
PREFIX = "ZLRS_"
FILE_LIMIT_BYTES = 1 << 20

Value = Union[str, int, float, bool, "list[Value]", "dict[str, Value]", None]
Tree = dict[str, dict[str, Value]]


class Layer(NamedTuple):
    """One source of settings; `origin` names it for people."""

    origin: str
    tree: Tree
    is_text: bool = False
    tables: Mapping[str, list[dict[str, Value]]] = MappingProxyType({})


def user_file(environment: Mapping[str, str]) -> Path:
    """`$XDG_CONFIG_HOME/zlrs/zlrs.toml`, by default under `~/.config`."""
    root = environment.get("XDG_CONFIG_HOME", "")
    folder = (
        Path(root) if root.startswith("/") else Path(environment.get("HOME", "~")).expanduser() / ".config"
    )
    return folder / "zlrs" / FILE_NAME


def read_file(path: Path) -> Layer:
    """Parse one file.

    Raises:
        ConfigError: It cannot be read, is not TOML, is over 1 MiB, or a top-level entry is not a table.
    """
    try:
        if path.stat().st_size > FILE_LIMIT_BYTES:
            raise ConfigError(
                f"{path} has {path.stat().st_size} bytes; a configuration may have {FILE_LIMIT_BYTES}"
            )
        parsed = msgspec.toml.decode(path.read_text(encoding="utf-8"), type=dict[str, object])
    except OSError as error:
        raise ConfigError(
            f"cannot read {path}: {error.strerror}", "Check the path and its permissions"
        ) from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} is not UTF-8 (byte {error.start})", "Save it as UTF-8") from error
    except msgspec.DecodeError as error:
        raise ConfigError(f"{path} is not TOML: {error}", "See https://toml.io") from error
    tree: Tree = {}
    tables: dict[str, list[dict[str, Value]]] = {}
    for name, value in parsed.items():
        if name in lists():
            if not isinstance(value, list) or not all(isinstance(entry, dict) for entry in value):
                raise ConfigError(f"{path}: `{name}` is not a list of tables", f"Write [[{name}]]")
            tables[name] = value
            continue
        if not isinstance(value, dict):
            raise ConfigError(
                f"{path}: `{name}` stands outside a section",
                f"Put it under one of [{'], ['.join(sections())}]",
            )
        tree[name] = value
    return Layer(str(path), tree, tables=tables)


def read_environment(environment: Mapping[str, str]) -> list[Layer]:
    """`ZLRS_SECTION_KEY=value`, one layer a variable so that each keeps its name.

    Variables with our prefix that name no section (`ZLRS_HOME`, `ZLRS_ISA`, …) belong to others and are left
    alone; a key that no section has is an error.
    """
    layers = []
    for variable in sorted(environment):
        if not variable.startswith(PREFIX):
            continue
        section, _, key = variable[len(PREFIX) :].lower().partition("_")
        if section not in sections() or not key:
            continue
        if key not in section_keys(section):
            known = [f"{PREFIX}{section}_{name}".upper() for name in section_keys(section)]
            raise ConfigError(f"unknown environment variable {variable}", nearest(variable, known))
        layers.append(Layer(f"environment {variable}", {section: {key: environment[variable]}}, is_text=True))
    return layers


def files(explicit: str | None, environment: Mapping[str, str], folder: Path) -> list[Layer]:
    """The user's file, then the project's (`./zlrs.toml`, or the one named by flag or `ZLRS_CONFIG`)."""
    layers = []
    own = user_file(environment)
    if own.is_file():
        layers.append(read_file(own))
    named = explicit or environment.get("ZLRS_CONFIG")
    if named:
        layers.append(read_file(Path(named).expanduser()))
    elif (folder / FILE_NAME).is_file():
        layers.append(read_file(folder / FILE_NAME))
    return layers


def flags(values: Mapping[str, Value]) -> list[Layer]:
    """Command-line flags as `section.key` -> value; `None` means the flag was not given."""
    layers = []
    for name, value in values.items():
        if value is not None:
            section, _, key = name.partition(".")
            layers.append(Layer("command line", {section: {key: value}}))
    return layers


def current_environment() -> Mapping[str, str]:
    """The one place that reads the process environment for settings."""
    return os.environ


__all__ = ["Config", "Layer", "Tree", "Value", "current_environment", "files", "flags", "read_environment"]
