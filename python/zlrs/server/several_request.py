"""The body field `zlrs`: priority, branches, conversations -> `Ask`."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from zlrs.branches import BRANCH_LIMIT, TAG, Branch, require_branches
from zlrs.server.ask import COUNT_LIMIT, Ask, Part, in_range
from zlrs.server.errors import invalid

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from zlrs.types import BranchAsk, ChatExtension, Message, MessagesExtension

PRIORITIES = ("interactive", "batch")


def extended(
    ask: Ask,
    extension: MessagesExtension | ChatExtension | None,
    conversations: Sequence[Callable[[str], tuple[Message, ...]]],
) -> Ask:
    """The ask with what the field adds.

    Args:
        ask: The rest of the body.
        extension: The field.
        conversations: For each of `zlrs.conversations`, its turns, given its path.

    Raises:
        Refusal: 400 with the field's path.
    """
    if extension is None:
        return ask
    if extension.priority is not None:
        if extension.priority not in PRIORITIES:
            raise invalid(
                f"is one of {', '.join(PRIORITIES)} (given {extension.priority[:40]!r})",
                param="zlrs.priority",
            )
        ask.options["priority"] = "batch" if extension.priority == "batch" else "interactive"
    if extension.branches is not None and extension.conversations is not None:
        raise invalid("takes `branches` or `conversations`, not both", param="zlrs")
    if extension.branches is not None:
        return replace(ask, parts=_branches(ask, extension.branches), parts_name="branches")
    if extension.conversations is not None:
        limits = [conversation.max_tokens for conversation in extension.conversations]
        tags = [conversation.tag for conversation in extension.conversations]
        return replace(
            ask, parts=_conversations(ask, conversations, tags, limits), parts_name="conversations"
        )
    return ask


def only_conversations(messages: Sequence[object], system: object = None) -> tuple[Message, ...]:
    """Refuse turns outside of `zlrs.conversations`: the conversations have nothing in common.

    Raises:
        Refusal: 400.
    """
    if messages or system:
        raise invalid(
            "must be empty beside `zlrs.conversations`",
            param="messages" if messages else "system",
            suggestion="Send `messages: []` and every turn in its conversation",
        )
    return ()


def _with_limit(ask: Ask, path: str, limit: int | None) -> Ask:
    in_range(f"{path}.max_tokens", limit, 1, COUNT_LIMIT)
    return ask if limit is None else replace(ask, options={**ask.options, "max_tokens": limit})


def _branches(ask: Ask, given: Sequence[BranchAsk]) -> tuple[Part, ...]:
    parts = []
    try:
        branches = [Branch(one.tag, one.instruction, one.max_tokens) for one in given]
        require_branches(branches)
        for index, branch in enumerate(branches):
            options = _with_limit(ask, f"zlrs.branches.{index}", branch.max_tokens).options
            parts.append(Part(branch.tag, branch.turns(ask.turns), options))
    except ValueError as error:
        raise invalid(str(error), param="zlrs.branches") from error
    return tuple(parts)


def _conversations(
    ask: Ask,
    conversations: Sequence[Callable[[str], tuple[Message, ...]]],
    tags: Sequence[str | None],
    limits: Sequence[int | None],
) -> tuple[Part, ...]:
    if not 1 <= len(conversations) <= BRANCH_LIMIT:
        raise invalid(
            f"1 … {BRANCH_LIMIT} conversations can be answered in one call (given {len(conversations)})",
            param="zlrs.conversations",
        )
    parts = []
    for index, (turns_of, tag, limit) in enumerate(zip(conversations, tags, limits, strict=True)):
        path = f"zlrs.conversations.{index}"
        if tag is not None and TAG.fullmatch(tag) is None:
            raise invalid(
                f"has 1 … 64 letters, digits, `.`, `_` or `-` (given {tag[:80]!r})", param=f"{path}.tag"
            )
        options = _with_limit(ask, path, limit).options
        parts.append(Part(str(index) if tag is None else tag, turns_of(path), options))
    names = [part.tag for part in parts]
    double = next((name for name in names if names.count(name) > 1), None)
    if double is not None:
        raise invalid(f"two have the tag {double!r}; each needs its own", param="zlrs.conversations")
    return tuple(parts)
