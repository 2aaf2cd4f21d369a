"""Layers to one checked `Config`: flags over environment over project file over user file over defaults."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from zlrs.config import layers as sources
from zlrs.config.errors import ConfigError
from zlrs.config.model import Config
from zlrs.config.names import lists, nearest, section_keys, section_type, sections

if TYPE_CHECKING:
    from collections.abc import Mapping

DEFAULT = "default"


class Loaded(NamedTuple):
    """A configuration and, for every `section.key`, the layer that set it."""

    config: Config
    origins: dict[str, str]


def load(
    *,
    file: str | None = None,
    flags: Mapping[str, sources.Value] | None = None,
    environment: Mapping[str, str] | None = None,
    folder: Path | None = None,
) -> Loaded:
    """Read and check every layer.

    Args:
        file: Instead of `./zlrs.toml` and `ZLRS_CONFIG`.
        flags: `section.key` -> value; `None` = not given.
        environment: Instead of the process environment.
        folder: Instead of the working directory.

    Raises:
        ConfigError: Any layer has an unknown section or key (the nearest known one is named), a value of a
            wrong type or out of range, or cannot be read. Every layer is checked, also where a later one
            overrides it.
    """
    environment = sources.current_environment() if environment is None else environment
    stack = [
        *sources.files(file, environment, folder or Path.cwd()),
        *sources.read_environment(environment),
        *sources.flags(flags or {}),
    ]
    merged: dict[str, dict[str, object]] = {name: {} for name in sections()}
    origins = {f"{name}.{key}": DEFAULT for name in sections() for key in section_keys(name)}
    for layer in stack:
        for name, values in layer.tree.items():
            for key, value in _checked(layer, name, values).items():
                merged[name][key] = value
                origins[f"{name}.{key}"] = layer.origin
    entries: dict[str, object] = {}
    for name in lists():
        origins[name] = DEFAULT
    for layer in stack:
        for name, tables in layer.tables.items():
            # A later layer's list replaces the earlier one: entries have an order and belong together.
            entries[name] = [_entry(layer, name, index, entry) for index, entry in enumerate(tables)]
            origins[name] = layer.origin
    return Loaded(msgspec.convert(merged | entries, Config), origins)


def _entry(layer: sources.Layer, name: str, index: int, values: Mapping[str, sources.Value]) -> object:
    """One table of a list, converted to its type."""
    struct = lists()[name]
    keys = [field.name for field in msgspec.structs.fields(struct)]
    for key in values:
        if key not in keys:
            raise ConfigError(f"{layer.origin}: unknown key `{name}[{index}].{key}`", nearest(key, keys))
    try:
        return msgspec.to_builtins(msgspec.convert(values, struct))
    except msgspec.ValidationError as error:
        raise ConfigError(f"{layer.origin}: {_explain(f'{name}[{index}]', str(error), values)}") from error


def _checked(layer: sources.Layer, section: str, values: Mapping[str, sources.Value]) -> dict[str, object]:
    """The values of one layer's section, converted to their types."""
    if section not in sections():
        raise ConfigError(f"{layer.origin}: unknown section [{section}]", nearest(section, sections()))
    keys = section_keys(section)
    for key in values:
        if key not in keys:
            raise ConfigError(f"{layer.origin}: unknown key `{section}.{key}`", nearest(key, keys))
    struct = section_type(section)
    given: dict[str, object] = dict(values)
    if layer.is_text:
        given = {key: _from_text(struct, key, value) for key, value in given.items()}
    try:
        converted = msgspec.convert(given, struct, strict=not layer.is_text)
    except msgspec.ValidationError as error:
        raise ConfigError(f"{layer.origin}: {_explain(section, str(error), given)}") from error
    return {key: getattr(converted, key) for key in given}


def _from_text(struct: type[msgspec.Struct], key: str, value: object) -> object:
    """An environment variable's text in the form its type wants: lists are separated by commas."""
    defaults = {field.name: field.default_factory for field in msgspec.structs.fields(struct)}
    if defaults[key] is list and isinstance(value, str):
        return [part.strip() for part in value.split(",") if part.strip()]
    return value


def _explain(section: str, problem: str, given: Mapping[str, object]) -> str:
    """`server.port: expected int <= 65535 (given 70000)` from the parser's sentence."""
    text, _, path = problem.partition(" - at `$.")
    key = path.rstrip("`")
    name = key.partition("[")[0]
    what = text[:1].lower() + text[1:]
    if not path:
        return f"{section}: {what}"
    return f"{section}.{key}: {what} (given {given.get(name)!r})"
