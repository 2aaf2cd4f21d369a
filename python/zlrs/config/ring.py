"""Settings of the validation ring."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from zlrs.config.section import Section


class RingRuleSettings(Section, frozen=True):
    """One `[[ring.rule]]`: after this must come that, e.g. a code behind a diagnosis."""

    name: Annotated[str, Meta(pattern="^[A-Za-z0-9._-]{1,64}$", description="its name in receipts")]
    pattern: Annotated[
        str, Meta(min_length=1, max_length=1000, description="regular expression, searched in the answer")
    ]
    follow: Annotated[
        str, Meta(min_length=1, max_length=1000, description="regular expression that must match behind it")
    ]
    within_bytes: Annotated[
        int,
        Meta(ge=1, le=1024, description="how much text behind it is waited for; the line's end is enough"),
    ] = 64


class RingSettings(Section, frozen=True):
    """What is looked for in answers and decoded again (docs/how-to/validation-ring.md). Off by default."""

    numbers: Annotated[bool, Meta(description="mark numbers that are not in the prompt")] = False
    repetition: Annotated[bool, Meta(description="mark runs of tokens that come three times in a row")] = (
        False
    )
    head: Annotated[str, Meta(description="re-scoring head made by `zlrs ring train`")] | None = None
    rule: Annotated[
        tuple[RingRuleSettings, ...], Meta(max_length=64, description="what must follow what")
    ] = ()
    uploads: Annotated[bool, Meta(description="take heads of callers (`POST /v1/validation-heads`)")] = True
