"""Body of the Chat API -> `Ask`."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from zlrs.server.ask import COUNT_LIMIT, STOP_COUNT, Ask, in_range, role_of, sampling, stop_texts, text_of
from zlrs.server.errors import invalid
from zlrs.server.limits import decode
from zlrs.server.several_request import extended, only_conversations
from zlrs.types import ABSENT, ChatRequest, Extensions, Message, unknown_fields

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zlrs.options import GenerateOptions
    from zlrs.types import ChatTurn

ROLES = ("system", "developer", "user", "assistant")
TEMPERATURE_LIMIT = 2.0
BIAS_LIMIT = 100.0
BIAS_COUNT = 1024


def parse(body: bytes) -> tuple[ChatRequest, tuple[str, ...]]:
    """The typed body and the names of its unknown fields."""
    return decode(body, ChatRequest), unknown_fields(body, ChatRequest)


def ask_of(request: ChatRequest, ignored: tuple[str, ...], *, vocabulary: int) -> Ask:
    """Check every field and translate it.

    Args:
        request: The typed body.
        ignored: Its unknown fields.
        vocabulary: Number of token ids, for `logit_bias`.

    Raises:
        Refusal: With the field's path.
    """
    _refuse_unsupported(request)
    conversations = request.zlrs.conversations if request.zlrs is not None else None
    if conversations is None:
        turns = _conversation(request.messages, "")
    else:
        turns = only_conversations(request.messages)
    if isinstance(request.stream, str):
        raise invalid(f"must be true or false (given {request.stream[:40]!r})", param="stream")
    in_range("max_tokens", request.max_tokens, 1, COUNT_LIMIT)
    in_range("max_completion_tokens", request.max_completion_tokens, 1, COUNT_LIMIT)
    limit = request.max_completion_tokens if request.max_completion_tokens is not None else request.max_tokens
    options: GenerateOptions = {
        "stop": stop_texts("stop", request.stop, STOP_COUNT),
        "logit_bias": _bias(request.logit_bias, vocabulary),
    }
    if limit is not None:
        options["max_tokens"] = limit
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
    usage = bool(request.stream_options and request.stream_options.include_usage)
    extensions = request.zlrs or Extensions()
    if extensions.require_exits:
        options["require_exits"] = True
    ask = Ask(
        turns,
        options,
        stream=bool(request.stream),
        include_usage=usage,
        ignored=ignored,
        session=extensions.session,
        append=extensions.append,
        user=request.user,
    )
    readers = [partial(_conversation, one.messages) for one in conversations or ()]
    return extended(ask, request.zlrs, readers)


def _conversation(messages: Sequence[ChatTurn], path: str) -> tuple[Message, ...]:
    name = f"{path}.messages" if path else "messages"
    if not messages:
        raise invalid("at least one message is required", param=name)
    return tuple(_turn(f"{name}.{index}", turn) for index, turn in enumerate(messages))


def _turn(path: str, turn: ChatTurn) -> Message:
    if turn.role in {"tool", "function"} or turn.tool_calls or bytes(turn.function_call) != bytes(ABSENT):
        raise invalid(
            "tool calls and their results are not supported by this engine",
            param=path,
            suggestion="Send the conversation as text",
        )
    role = role_of(path, turn.role, ROLES)
    if turn.content is None and role != "assistant":
        raise invalid("field required", param=f"{path}.content")
    return Message("system" if role == "developer" else role, text_of(f"{path}.content", turn.content))


def _bias(given: dict[str, float] | None, vocabulary: int) -> dict[int, float] | None:
    if not given:
        return None
    if len(given) > BIAS_COUNT:
        raise invalid(f"at most {BIAS_COUNT} tokens are allowed (given {len(given)})", param="logit_bias")
    bias = {}
    for token, value in given.items():
        path = f"logit_bias.{token[:20]}"
        if not (token.isascii() and token.isdigit() and len(token) < 10 and int(token) < vocabulary):  # noqa: PLR2004 - the most digits that can be meant
            raise invalid(f"token ids are 0 … {vocabulary - 1}", param=path)
        in_range(path, value, -BIAS_LIMIT, BIAS_LIMIT)
        bias[int(token)] = value
    return bias


def _refuse_unsupported(request: ChatRequest) -> None:
    if request.n is not None and request.n != 1:
        raise invalid(
            f"only 1 choice can be made at a time (given {request.n})",
            param="n",
            suggestion="Send several requests",
        )
    for name in ("tools", "functions", "audio", "web_search_options"):
        value = getattr(request, name)
        if value and (isinstance(value, list) or bytes(value) != bytes(ABSENT)):
            raise invalid("is not supported by this engine", param=name, suggestion=f"Leave `{name}` out")
    if request.logprobs or request.top_logprobs:
        raise invalid("log probabilities are not available in this version", param="logprobs")
    for name in ("frequency_penalty", "presence_penalty"):
        if getattr(request, name):
            raise invalid(
                "is not available in this version",
                param=name,
                suggestion="`repetition_penalty` is, as an extension",
            )
    if request.response_format is not None and request.response_format.type != "text":
        raise invalid(
            f"only 'text' is supported (given {request.response_format.type[:40]!r})",
            param="response_format.type",
            suggestion="Ask for the format in the prompt",
        )
    if request.modalities is not None and request.modalities != ["text"]:
        raise invalid("only ['text'] is supported", param="modalities")
