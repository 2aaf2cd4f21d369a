"""What is looked for in an answer: as configured, with the head that a request names."""

from __future__ import annotations

import asyncio
import base64
import binascii
from pathlib import Path
from typing import TYPE_CHECKING

from zlrs import _core
from zlrs.config import ConfigError
from zlrs.errors import from_core
from zlrs.server.errors import invalid, refuse
from zlrs.server.validation_heads import PREFIX

if TYPE_CHECKING:
    from zlrs.config import RingSettings
    from zlrs.server.context import ServerContext
    from zlrs.server.headers import RequestHeaders

HEAD_BYTES = 384 << 10
CHECK_SECONDS = 5.0
"""Longest time that reading a head may take; it takes some milliseconds."""
RING_TOKENS = 64


def configured(settings: RingSettings) -> _core.Validation:
    """What the configuration looks for, its head excepted.

    Raises:
        ConfigError: A rule cannot be compiled.
    """
    rules = [(rule.name, rule.pattern, rule.follow, rule.within_bytes) for rule in settings.rule]
    try:
        return _core.Validation(
            reach_tokens=RING_TOKENS, rules=rules, numbers=settings.numbers, repetition=settings.repetition
        )
    except _core.CoreError as error:
        raise ConfigError(f"ring.rule: {error.message}", "Patterns have no look-around and no \\1") from error


async def load_head(context: ServerContext, path: str, file_sha256: str) -> None:
    """Take the configured head into use.

    Raises:
        ConfigError: It cannot be read, or is no head of this model.
    """
    try:
        head = await asyncio.to_thread(_read_file, path)
    except (OSError, _core.CoreError) as error:
        raise ConfigError(f"ring.head: {error}", "Make one with `zlrs ring train`") from error
    made_for = _made_for(head)
    if made_for != file_sha256:
        raise ConfigError(
            f"ring.head: {path} is for another model file ({made_for[:12]}…, loaded {file_sha256[:12]}…)",
            "Make one for this model with `zlrs ring train`",
        )
    context.validation = context.validation.with_head(reach_tokens=RING_TOKENS, head=head)


async def validation_of(
    context: ServerContext, asked: RequestHeaders, tenant: bytes
) -> _core.Validation | None:
    """What is looked for in the answer to a request; None for nothing.

    Raises:
        Refusal: 400 for headers that contradict each other, or a head that is none or another model's; 404
            for one that is not there.
    """
    if not asked.validation:
        if asked.validation_head:
            raise refuse(
                "compute_profile_mismatch",
                "X-ZLRS-Validation is 'off' and X-ZLRS-Validation-Head names a head",
                suggestion="Send one of them",
            )
        return None
    head = None
    if asked.validation_head:
        head = await _asked_head(context, tenant, asked.validation_head)
    if head is None and context.validation.is_empty:
        return None
    return context.validation.with_head(reach_tokens=asked.ring_tokens, head=head)


async def checked_head(context: ServerContext, data: bytes) -> _core.RingHead:
    """Read a caller's head and hold it to the loaded model.

    Raises:
        Refusal: 400 for whatever is not exactly a head of this model, 413 for one that is too long, 403 where
            no heads are taken.
    """
    if not context.config.ring.uploads:
        raise refuse(
            "permission_error",
            "this server takes no validation heads of callers",
            suggestion="Its operator can allow them: `ring.uploads`",
        )
    if len(data) > HEAD_BYTES:
        raise refuse(
            "request_too_large", f"a validation head may have {HEAD_BYTES} bytes, this one has {len(data)}"
        )
    loaded = context.facts.file_sha256
    try:
        head = await asyncio.wait_for(asyncio.to_thread(_read, data), CHECK_SECONDS)
    except _core.CoreError as error:
        raise from_core(error) from error
    except asyncio.TimeoutError as error:
        raise refuse("timeout_error", f"the head was not read within {CHECK_SECONDS:g} s") from error
    if _made_for(head) != loaded:
        raise invalid(
            f"the validation head is for the model file {_made_for(head)[:12]}…, loaded is {loaded[:12]}…",
            suggestion="Train one for this model: `zlrs ring train`",
        )
    return head


async def _asked_head(context: ServerContext, tenant: bytes, value: str) -> _core.RingHead:
    if value.startswith(PREFIX):
        return context.validation_heads.find(tenant, value).head
    try:
        data = base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError) as error:
        raise invalid(
            "X-ZLRS-Validation-Head is neither the id of a head (`vh_…`) nor base64",
            suggestion="Upload the head with POST /v1/validation-heads and send its id",
        ) from error
    return await checked_head(context, data)


def _read(data: bytes) -> _core.RingHead:
    return _core.RingHead(data)


def _read_file(path: str) -> _core.RingHead:
    return _read(Path(path).expanduser().read_bytes())


def _made_for(head: _core.RingHead) -> str:
    return head.metadata.get("model_sha256", "").lower()
