"""What is wrong with a configuration, where, and what to do."""

from __future__ import annotations


class ConfigError(Exception):
    """A setting that cannot be used.

    Attributes:
        message: What is wrong, with the layer (file, variable or flag) and the key.
        suggestion: What to do next; may be empty.
    """

    def __init__(self, message: str, suggestion: str = "") -> None:
        super().__init__(f"{message}. {suggestion}" if suggestion else message)
        self.message = message
        self.suggestion = suggestion
