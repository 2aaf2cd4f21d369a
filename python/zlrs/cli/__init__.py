"""The `zlrs` command. `main` is its entry point; each verb is a module with `command(arguments) -> exit code`."""

from __future__ import annotations

from zlrs.cli.main import main

__all__ = ["main"]
