"""`zlrs serve`: the engine behind the Messages and Chat APIs; only here aiohttp is imported."""

from __future__ import annotations

from zlrs.server.app import create_app
from zlrs.server.context import ServerContext
from zlrs.server.lifecycle import serve

__all__ = ["ServerContext", "create_app", "serve"]
