"""What the tables of `zlrs.toml` are made of."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

BODY_LIMIT_BYTES = 32_000_000
"""The request size both protocols state for a message: 32 MB."""


class Section(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One table of `zlrs.toml`."""


Port = Annotated[int, Meta(ge=0, le=65535, description="TCP port; 0 takes a free one and prints it")]
Seconds = Annotated[float, Meta(gt=0, le=86_400)]
