"""The `zlrs` command: `main` is its entry point, each verb a module with `command(arguments)`."""

from __future__ import annotations

from zlrs.cli.dispatch import main

__all__ = ["main"]
