"""`zlrs.toml`: one tree of typed settings, read in layers, with the origin of every value."""

from __future__ import annotations

from zlrs.config.errors import ConfigError
from zlrs.config.graph import FactorSettings, GraphSettings
from zlrs.config.load import Loaded, load
from zlrs.config.model import Config, EngineSettings, HeaderSettings, ServerSettings, SessionSettings
from zlrs.config.proxy import (
    CaptureSettings,
    PriceSettings,
    ProxySettings,
    RewriteSettings,
    RuleSettings,
    UpstreamSettings,
)
from zlrs.config.ring import RingRuleSettings, RingSettings
from zlrs.config.schema import schema

__all__ = [
    "CaptureSettings",
    "Config",
    "ConfigError",
    "EngineSettings",
    "FactorSettings",
    "GraphSettings",
    "HeaderSettings",
    "Loaded",
    "PriceSettings",
    "ProxySettings",
    "RewriteSettings",
    "RingRuleSettings",
    "RingSettings",
    "RuleSettings",
    "ServerSettings",
    "SessionSettings",
    "UpstreamSettings",
    "load",
    "schema",
]
