"""`zlrs.toml`: one tree of typed settings, read in layers, with the origin of every value."""

from __future__ import annotations

from zlrs.config.errors import ConfigError
from zlrs.config.load import Loaded, load
from zlrs.config.model import (
    Config,
    EngineSettings,
    GraphSettings,
    HeaderSettings,
    ProxySettings,
    ServerSettings,
)
from zlrs.config.schema import schema

__all__ = [
    "Config",
    "ConfigError",
    "EngineSettings",
    "GraphSettings",
    "HeaderSettings",
    "Loaded",
    "ProxySettings",
    "ServerSettings",
    "load",
    "schema",
]
