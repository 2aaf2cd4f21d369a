"""What can go wrong between a model's name and its file."""

from __future__ import annotations


class ModelStoreError(Exception):
    """A model could not be named, found, fetched or trusted.

    Attributes:
        message: What happened, with the values compared.
        suggestion: What to do next, often a command.
    """

    def __init__(self, message: str, suggestion: str) -> None:
        super().__init__(f"{message}. {suggestion}")
        self.message = message
        self.suggestion = suggestion


class UnknownModelError(ModelStoreError):
    """The name is neither in the registry nor a file nor a URL."""


class ChecksumError(ModelStoreError):
    """A file's bytes are not the ones the registry knows."""


class DownloadError(ModelStoreError):
    """No source could deliver the file."""
