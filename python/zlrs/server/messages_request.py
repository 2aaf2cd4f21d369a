"""Body of the Messages API -> `Ask`."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import msgspec

from zlrs.server.ask import COUNT_LIMIT, STOP_COUNT, Ask, in_range, role_of, sampling, stop_texts, text_of
from zlrs.server.errors import invalid
from zlrs.server.limits import decode
from zlrs.server.several_request import extended, only_conversations
from zlrs.types import ABSENT, Extensions, Message, MessagesRequest, unknown_fields

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zlrs.options import GenerateOptions
    from zlrs.types import Block, MessagesConversation, MessagesTurn

ROLES = ("user", "assistant", "system")
TEMPERATURE_LIMIT = 1.0
ATTRIBUTION = "x-anthropic-"
"""A client's per-request line at the head of the system prompt; it is no part of the prompt."""


def parse(body: bytes) -> tuple[MessagesRequest, tuple[str, ...]]:
    """The typed body and the names of its unknown fields."""
    request = decode(body, MessagesRequest)
    return request, unknown_fields(body, MessagesRequest)


def turns_of(request: MessagesRequest) -> tuple[Message, ...]:
    """The conversation in order; a system block in the middle stays where it is.

    Raises:
        Refusal: Unknown role, unsupported content, or tools, with the field's path.
    """
    _refuse_unsupported(request)
    return conversation("", request.system, request.messages)


def conversation(
    path: str, system_content: str | Sequence[Block] | None, messages: Sequence[MessagesTurn]
) -> tuple[Message, ...]:
    """The turns of one conversation; `path` is where it stands in the body, with a point at its end.

    Raises:
        Refusal: No message, unknown role, or unsupported content, with the field's path.
    """
    if not messages:
        raise invalid("at least one message is required", param=f"{path}messages")
    turns = []
    system = _without_attribution(text_of(f"{path}system", system_content))
    if system:
        turns.append(Message("system", system))
    for index, turn in enumerate(messages):
        path_of_turn = f"{path}messages.{index}"
        role = role_of(path_of_turn, turn.role, ROLES)
        turns.append(Message(role, text_of(f"{path_of_turn}.content", turn.content)))
    return tuple(turns)


def ask_of(request: MessagesRequest, ignored: tuple[str, ...]) -> Ask:
    """Check every field and translate it.

    Raises:
        Refusal: With the field's path.
    """
    conversations = request.zlrs.conversations if request.zlrs is not None else None
    if conversations is None:
        turns = turns_of(request)
    else:
        _refuse_unsupported(request)
        turns = only_conversations(request.messages, request.system)
    if isinstance(request.stream, str):
        raise invalid(
            f"must be true or false (given {request.stream[:40]!r}; semantic streams are not available in "
            "this version)",
            param="stream",
        )
    in_range("max_tokens", request.max_tokens, 1, COUNT_LIMIT)
    options: GenerateOptions = {
        "stop": stop_texts("stop_sequences", request.stop_sequences, STOP_COUNT),
    }
    if request.max_tokens is not None:
        options["max_tokens"] = request.max_tokens
    sampling(
        options,
        temperature=request.temperature,
        temperature_limit=TEMPERATURE_LIMIT,
        top_p=request.top_p,
        top_k=request.top_k,
        min_p=request.min_p,
        repetition_penalty=request.repetition_penalty,
        seed=request.seed,
    )
    extensions = request.zlrs or Extensions()
    if extensions.require_exits:
        options["require_exits"] = True
    ask = Ask(
        turns,
        options,
        stream=bool(request.stream),
        include_usage=True,
        ignored=ignored,
        writes_cache=_writes_cache(request),
        session=extensions.session,
        append=extensions.append,
        user=_user(request),
    )
    readers = [partial(_conversation, one) for one in conversations or ()]
    return extended(ask, request.zlrs, readers)


def _conversation(one: MessagesConversation, path: str) -> tuple[Message, ...]:
    return conversation(f"{path}.", one.system, one.messages)


def _writes_cache(request: MessagesRequest) -> bool:
    """Whether the request asks for caching, as a whole or at some block."""
    contents = [request.system, *(turn.content for turn in request.messages)]
    blocks = [block for content in contents if isinstance(content, list) for block in content]
    return request.cache_control is not None or any(
        bytes(block.cache_control) != bytes(ABSENT) for block in blocks
    )


def _user(request: MessagesRequest) -> str | None:
    """`metadata.user_id`, where it is a text."""
    given = (request.metadata or {}).get("user_id")
    try:
        return None if given is None else msgspec.json.decode(given, type=str)
    except msgspec.DecodeError:
        return None


def _refuse_unsupported(request: MessagesRequest) -> None:
    if request.tools:
        raise invalid(
            "tools are not supported by this engine", param="tools", suggestion="Leave `tools` out or send []"
        )
    if request.thinking is not None and request.thinking.type != "disabled":
        raise invalid(
            f"only 'disabled' is accepted, there is no thinking mode (given {request.thinking.type[:40]!r})",
            param="thinking.type",
            suggestion="Leave `thinking` out",
        )
    if request.output_config is not None and request.output_config.format is not None:
        raise invalid(
            "output formats are not supported by this engine",
            param="output_config.format",
            suggestion="Ask for the format in the prompt",
        )
    if request.mcp_servers:
        raise invalid("this engine connects to no servers", param="mcp_servers")
    if bytes(request.container) != bytes(ABSENT):
        raise invalid("this engine has no containers", param="container")


def _without_attribution(system: str) -> str:
    first, _, rest = system.partition("\n")
    return rest.lstrip("\n") if first.lower().startswith(ATTRIBUTION) else system
