"""What is wrong with a configuration, where, and what to do."""

from __future__ import annotations

from zlrs.errors import ConfigurationError


class ConfigError(ConfigurationError):
    """A setting that cannot be used; the message names the layer (file, variable or flag) and the key."""

    def __init__(self, message: str, suggestion: str | None = None) -> None:
        super().__init__(message, suggestion=suggestion)
