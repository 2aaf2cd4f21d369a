"""The JSON schema of `zlrs.toml`, for editors and for the reference pages."""

from __future__ import annotations

import msgspec

from zlrs.config.model import Config


def schema() -> dict[str, object]:
    """JSON Schema 2020-12 of the whole file."""
    described: dict[str, object] = msgspec.json.schema(Config)
    described["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    described["title"] = "zlrs.toml"
    return described
