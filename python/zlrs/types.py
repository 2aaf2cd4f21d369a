"""The request bodies of the Messages and Chat APIs as far as the engine understands them.

Parsing is strict about types and open about names: a field that is not listed is tolerated, as both protocols
ask of a server, and reported by `unknown_fields` so that it can be counted and logged. What a field may
contain beyond its type is checked in `zlrs.server`, where errors can name the field and the way out.
"""

from __future__ import annotations

import msgspec
from msgspec import UNSET, Raw, UnsetType

ABSENT = Raw(b"null")
"""An untyped field that was left out; an explicit `null` means the same."""


class Message(msgspec.Struct, frozen=True):
    """One turn for `Engine.generate`: plain text with its role."""

    role: str
    content: str


class Block(msgspec.Struct, frozen=True):
    """A content block of either protocol; only `type: "text"` has meaning here.

    `citations` are accepted and ignored; `cache_control` changes how tokens are counted, never the answer.
    """

    type: str
    text: str | UnsetType | None = UNSET
    cache_control: Raw = ABSENT


Content = str | list[Block] | None


class MessagesTurn(msgspec.Struct, frozen=True):
    """One entry of `messages` in the Messages API."""

    role: str
    content: str | list[Block]


class Thinking(msgspec.Struct, frozen=True):
    """`thinking`: the engine has none, so only `disabled` is accepted."""

    type: str


class OutputConfig(msgspec.Struct, frozen=True):
    """`output_config`: effort is a hint without effect here, a format is refused."""

    effort: str | None = None
    format: dict[str, Raw] | None = None


class Extensions(msgspec.Struct, frozen=True):
    """`zlrs` in a body of either protocol: what only this server knows.

    `session` is `create` or a session's secret; with `append` the messages are only what is new in it. With
    `require_exits` the request fails where rows cannot leave early, or flap.
    """

    session: str | None = None
    append: bool = False
    require_exits: bool = False


class BranchAsk(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An entry of `zlrs.branches`: one continuation of the prompt."""

    tag: str
    instruction: str | None = None
    max_tokens: int | None = None


class MessagesConversation(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An entry of `zlrs.conversations` in the Messages API."""

    messages: list[MessagesTurn]
    system: str | list[Block] | None = None
    max_tokens: int | None = None
    tag: str | None = None


class MessagesExtension(Extensions, frozen=True, forbid_unknown_fields=True):
    """`zlrs` in the Messages API: what the protocol has no field for."""

    priority: str | None = None
    branches: list[BranchAsk] | None = None
    conversations: list[MessagesConversation] | None = None


class MessagesRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Body of `POST /v1/messages`; of `/v1/messages/count_tokens` only the part that makes the prompt.

    `seed`, `min_p`, `repetition_penalty`, `zlrs` and an absent `max_tokens` are extensions.
    """

    model: str
    messages: list[MessagesTurn]
    system: str | list[Block] | None = None
    max_tokens: int | None = None
    stop_sequences: list[str] | None = None
    stream: bool | str | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    seed: int | None = None
    min_p: float | None = None
    repetition_penalty: float | None = None
    thinking: Thinking | None = None
    output_config: OutputConfig | None = None
    tools: list[Raw] | None = None
    tool_choice: Raw = ABSENT
    container: Raw = ABSENT
    mcp_servers: list[Raw] | None = None
    metadata: dict[str, Raw] | None = None
    service_tier: str | None = None
    cache_control: dict[str, Raw] | None = None
    zlrs: MessagesExtension | None = None


class ChatTurn(msgspec.Struct, frozen=True):
    """One entry of `messages` in the Chat API."""

    role: str
    content: Content = None
    tool_calls: list[Raw] | None = None
    function_call: Raw = ABSENT
    audio: Raw = ABSENT


class StreamOptions(msgspec.Struct, frozen=True):
    """`stream_options` of the Chat API."""

    include_usage: bool | None = None


class ResponseFormat(msgspec.Struct, frozen=True):
    """`response_format`: only `text` is accepted."""

    type: str


class ChatConversation(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An entry of `zlrs.conversations` in the Chat API."""

    messages: list[ChatTurn]
    max_tokens: int | None = None
    tag: str | None = None


class ChatExtension(Extensions, frozen=True, forbid_unknown_fields=True):
    """`zlrs` in the Chat API: what the protocol has no field for."""

    priority: str | None = None
    branches: list[BranchAsk] | None = None
    conversations: list[ChatConversation] | None = None


class ChatRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Body of `POST /v1/chat/completions`.

    `top_k`, `min_p`, `repetition_penalty` and `zlrs` are extensions.
    """

    model: str
    messages: list[ChatTurn]
    max_tokens: int | None = None
    max_completion_tokens: int | None = None
    stop: str | list[str] | None = None
    stream: bool | str | None = None
    stream_options: StreamOptions | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    min_p: float | None = None
    repetition_penalty: float | None = None
    frequency_penalty: float | None = None
    presence_penalty: float | None = None
    seed: int | None = None
    n: int | None = None
    logit_bias: dict[str, float] | None = None
    logprobs: bool | None = None
    top_logprobs: int | None = None
    response_format: ResponseFormat | None = None
    tools: list[Raw] | None = None
    tool_choice: Raw = ABSENT
    functions: list[Raw] | None = None
    function_call: Raw = ABSENT
    modalities: list[str] | None = None
    audio: Raw = ABSENT
    web_search_options: Raw = ABSENT
    prediction: Raw = ABSENT
    user: str | None = None
    store: bool | None = None
    metadata: dict[str, Raw] | None = None
    service_tier: str | None = None
    parallel_tool_calls: bool | None = None
    reasoning_effort: str | None = None
    zlrs: ChatExtension | None = None


def unknown_fields(body: bytes, request: type[msgspec.Struct]) -> tuple[str, ...]:
    """Top-level names in `body` that `request` does not list, in order of appearance. O(len(body))."""
    known = request.__struct_fields__
    given = msgspec.json.decode(body, type=dict[str, Raw])
    return tuple(name for name in given if name not in known)
