"""Bad input over HTTP: the protocol's status and shape, the field's path, and a server that lives on."""

from __future__ import annotations

import asyncio
import io
import json
from typing import TYPE_CHECKING

import pytest

from support.serving import MODEL, Served, serving
from zlrs.config import ServerSettings

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

USER = {"role": "user", "content": "x"}
MESSAGES = {"model": MODEL, "max_tokens": 5, "messages": [USER]}
CHAT = {"model": MODEL, "messages": [USER]}
JSON = {"content-type": "application/json"}


@pytest.fixture
async def served() -> AsyncIterator[Served]:
    async with serving() as running:
        yield running


def image() -> dict[str, object]:
    return {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": ""}}


@pytest.mark.parametrize(
    ("change", "param"),
    [
        ({"messages": []}, "messages"),
        ({"messages": [{"role": "robot", "content": "x"}]}, "messages.0.role"),
        ({"messages": [USER, {"role": "tool", "content": "x"}]}, "messages.1.role"),
        ({"messages": [{"role": "user", "content": [image()]}]}, "messages.0.content.0.type"),
        (
            {
                "messages": [
                    {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": []}]}
                ]
            },
            "messages.0.content.0.type",
        ),
        (
            {
                "messages": [
                    {
                        "role": "assistant",
                        "content": [{"type": "tool_use", "id": "t", "name": "n", "input": {}}],
                    }
                ]
            },
            "messages.0.content.0.type",
        ),
        ({"messages": [{"role": "user", "content": [{"type": "text"}]}]}, "messages.0.content.0.text"),
        ({"system": [image()]}, "system.0.type"),
        ({"tools": [{"name": "n", "input_schema": {}}]}, "tools"),
        ({"thinking": {"type": "enabled", "budget_tokens": 1024}}, "thinking.type"),
        ({"output_config": {"format": {"type": "json_schema", "schema": {}}}}, "output_config.format"),
        ({"mcp_servers": [{}]}, "mcp_servers"),
        ({"container": "c"}, "container"),
        ({"stream": "semantic"}, "stream"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"max_tokens": -1}, "max_tokens"),
        ({"max_tokens": 10**30}, "max_tokens"),
        ({"temperature": 1.5}, "temperature"),
        ({"temperature": -0.1}, "temperature"),
        ({"temperature": 1e6}, "temperature"),
        ({"top_p": -1}, "top_p"),
        ({"top_p": 0}, "top_p"),
        ({"top_k": -1}, "top_k"),
        ({"repetition_penalty": 0}, "repetition_penalty"),
        ({"min_p": 2}, "min_p"),
        ({"seed": 10**40}, "seed"),
        ({"stop_sequences": [""]}, "stop_sequences.0"),
        ({"stop_sequences": ["x" * 2000]}, "stop_sequences.0"),
        ({"stop_sequences": ["x"] * 65}, "stop_sequences"),
    ],
)
async def test_messages_bodies(served: Served, change: dict[str, object], param: str) -> None:
    async with served.client.post("/v1/messages", json={**MESSAGES, **change}) as response:
        body = await response.json()
        assert response.status == 400
    assert body["type"] == "error"
    assert body["error"]["type"] == "invalid_request_error"
    assert body["error"]["message"].startswith(f"{param}: ")
    assert body["request_id"] == response.headers["request-id"]
    assert served.core.submitted == []


@pytest.mark.parametrize(
    ("change", "param"),
    [
        ({"messages": []}, "messages"),
        ({"messages": [{"role": "robot", "content": "x"}]}, "messages.0.role"),
        ({"messages": [{"role": "tool", "content": "x", "tool_call_id": "t"}]}, "messages.0"),
        ({"messages": [{"role": "assistant", "content": None, "tool_calls": [{}]}]}, "messages.0"),
        ({"messages": [{"role": "user", "content": None}]}, "messages.0.content"),
        (
            {
                "messages": [
                    {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "http://x"}}]}
                ]
            },
            "messages.0.content.0.type",
        ),
        ({"tools": [{}]}, "tools"),
        ({"functions": [{}]}, "functions"),
        ({"audio": {}}, "audio"),
        ({"web_search_options": {}}, "web_search_options"),
        ({"modalities": ["text", "audio"]}, "modalities"),
        ({"response_format": {"type": "json_object"}}, "response_format.type"),
        ({"n": 2}, "n"),
        ({"n": 0}, "n"),
        ({"n": 1000}, "n"),
        ({"logprobs": True}, "logprobs"),
        ({"top_logprobs": 5}, "logprobs"),
        ({"logprobs": True, "top_logprobs": 1 << 40}, "logprobs"),
        ({"frequency_penalty": 0.5}, "frequency_penalty"),
        ({"presence_penalty": -1}, "presence_penalty"),
        ({"temperature": 2.1}, "temperature"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"max_completion_tokens": -3}, "max_completion_tokens"),
        ({"stop": ""}, "stop.0"),
        ({"stop": ["a", ""]}, "stop.1"),
        ({"logit_bias": {"x": 1}}, "logit_bias.x"),
        ({"logit_bias": {"-1": 1}}, "logit_bias.-1"),
        ({"logit_bias": {"99999999": 1}}, "logit_bias.99999999"),
        ({"logit_bias": {"5": 101}}, "logit_bias.5"),
        ({"logit_bias": {str(i): 1 for i in range(5000)}}, "logit_bias"),
    ],
)
async def test_chat_bodies(served: Served, change: dict[str, object], param: str) -> None:
    async with served.client.post("/v1/chat/completions", json={**CHAT, **change}) as response:
        body = await response.json()
        assert response.status == 400
    assert set(body) == {"error"}
    assert body["error"]["type"] == "invalid_request_error"
    assert body["error"]["param"] == param
    assert "code" in body["error"]
    assert served.core.submitted == []


@pytest.mark.parametrize("path", ["/v1/messages", "/v1/messages/count_tokens", "/v1/chat/completions"])
@pytest.mark.parametrize(
    ("data", "headers", "status", "says"),
    [
        (b"{", JSON, 400, "not valid JSON"),
        (b"", JSON, 400, "not valid JSON"),
        (b"[" * 100_000, JSON, 400, ""),
        (b"null", JSON, 400, "expected `object`"),
        (b"{}", {"content-type": "text/plain"}, 400, "content-type must be application/json"),
        (b"{}", {}, 400, "content-type must be application/json"),
        (b"{}", {**JSON, "content-encoding": "zip"}, 400, ""),
    ],
)
async def test_bodies_that_are_no_requests(
    served: Served, path: str, data: bytes, headers: dict[str, str], status: int, says: str
) -> None:
    async with served.client.post(path, data=data, headers=headers) as response:
        text = await response.text()
        assert response.status == status
    assert says in json.loads(text)["error"]["message"]


async def test_compressed_bodies_are_refused_before_they_grow(served: Served) -> None:
    import zlib

    bomb = zlib.compress(b" " * 50_000_000)
    async with served.client.post(
        "/v1/messages", data=bomb, headers={**JSON, "content-encoding": "deflate"}
    ) as response:
        assert response.status == 400
        assert "content-encoding" in (await response.json())["error"]["message"]


@pytest.mark.parametrize("path", ["/v1/messages", "/v1/chat/completions"])
async def test_a_body_of_33_megabytes_is_refused_before_it_is_read(served: Served, path: str) -> None:
    host, port = served.url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    writer.write(f"{head}Content-Length: 33000000\r\nExpect: 100-continue\r\n\r\n".encode())
    answer = (await reader.readuntil(b"\r\n\r\n")).decode()
    assert answer.startswith("HTTP/1.1 413 "), "no `100 Continue`, no byte of the body"
    body = json.loads(await reader.read())
    assert body["error"]["type"] == "request_too_large"
    assert "32000000" in body["error"]["message"]
    assert "33000000" in body["error"]["message"]
    writer.close()


async def test_a_body_without_length_is_counted_while_it_is_read() -> None:
    async with serving(server=ServerSettings(body_limit_bytes=2048)) as served:

        async def endless() -> AsyncIterator[bytes]:
            for _ in range(100):
                yield b" " * 100

        async with served.client.post("/v1/messages", data=endless(), headers=JSON) as response:
            assert response.status == 413
            assert (await response.json())["error"]["type"] == "request_too_large"


async def test_a_body_of_the_allowed_size_is_read() -> None:
    async with serving(server=ServerSettings(body_limit_bytes=2048)) as served:
        body = json.dumps(MESSAGES).encode()
        padded = body + b" " * (2048 - len(body))
        for data, status in ((padded, 200), (padded + b" ", 413)):
            async with served.client.post("/v1/messages", data=data, headers=JSON) as response:
                assert response.status == status


async def test_a_body_that_never_comes_is_given_up() -> None:
    async with serving(server=ServerSettings(body_seconds=0.05)) as served:
        host, port = served.url.removeprefix("http://").split(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        head = "POST /v1/messages HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        writer.write(f"{head}Content-Length: 100\r\n\r\n{{".encode())
        assert (await reader.readline()).startswith(b"HTTP/1.1 408 ")
        writer.close()


@pytest.mark.parametrize(
    ("protocol", "path", "body"),
    [("messages", "/v1/messages", MESSAGES), ("chat", "/v1/chat/completions", CHAT)],
)
@pytest.mark.parametrize("stream", [False, True])
async def test_a_prompt_over_the_window(
    protocol: str, path: str, body: dict[str, object], stream: bool
) -> None:
    async with serving(context_tokens=64) as served:
        long = {**body, "stream": stream, "messages": [{"role": "user", "content": "x" * 97}]}
        async with served.client.post(path, json=long) as response:
            error = (await response.json())["error"]
            assert response.status == 400
        assert "prompt is too long: 100 tokens > 63 maximum" in error["message"]
        assert error["type"] == "invalid_request_error"
        if protocol == "chat":
            assert error["code"] == "context_length_exceeded"
        async with served.client.post(path, json=body) as response:
            assert response.status == 200


@pytest.mark.parametrize("path", ["/v1/messages", "/v1/messages/count_tokens", "/v1/chat/completions"])
async def test_more_text_than_a_template_may_render(served: Served, path: str) -> None:
    huge = {"model": MODEL, "messages": [{"role": "user", "content": "é" * 4_000_001}]}
    data = io.BytesIO(json.dumps(huge, ensure_ascii=False).encode())
    async with served.client.post(path, data=data, headers=JSON) as response:
        assert response.status == 400
        message = (await response.json())["error"]["message"]
    assert message == "prompt is too long: 8000002 bytes of text > 8000000 maximum"
    assert served.core.rendered == []


async def test_a_model_that_is_not_served(served: Served) -> None:
    async with served.client.post("/v1/messages", json={**MESSAGES, "model": "fake-modle"}) as response:
        error = (await response.json())["error"]
        assert response.status == 404
    assert error["type"] == "model_not_found"
    assert MODEL in error["message"]
    assert "Did you mean `fake-model`?" in error["suggestion"]
    async with served.client.post("/v1/chat/completions", json={**CHAT, "model": "gpt"}) as response:
        assert (await response.json())["error"]["code"] == "model_not_found"
    async with served.client.get("/v1/models/other/name") as response:
        assert response.status == 404


async def test_aliases_answer_as_the_model() -> None:
    async with serving(server=ServerSettings(model_aliases=["gpt-x"])) as served:
        async with served.client.post("/v1/chat/completions", json={**CHAT, "model": "gpt-x"}) as response:
            assert (await response.json())["model"] == MODEL
        async with served.client.post("/v1/chat/completions", json={**CHAT, "model": "gpt-y"}) as response:
            assert response.status == 404
    async with (
        serving(server=ServerSettings(model_aliases=["*"])) as served,
        served.client.post("/v1/chat/completions", json={**CHAT, "model": "any"}) as response,
    ):
        assert response.status == 200


@pytest.mark.parametrize(
    ("method", "path", "status", "type_"),
    [
        ("GET", "/nothing", 404, "not_found_error"),
        ("POST", "/v1/messages/batches", 404, "not_found_error"),
        ("GET", "/v1/messages", 405, "invalid_request_error"),
        ("DELETE", "/v1/chat/completions", 405, "invalid_request_error"),
        ("OPTIONS", "/v1/messages", 405, "invalid_request_error"),
        ("GET", "/v1/models?limit=0", 400, "invalid_request_error"),
        ("GET", "/v1/models?limit=ten", 400, "invalid_request_error"),
    ],
)
async def test_paths_and_methods(served: Served, method: str, path: str, status: int, type_: str) -> None:
    async with served.client.request(method, path) as response:
        assert response.status == status
        assert (await response.json())["error"]["type"] == type_
        assert "access-control-allow-origin" not in response.headers


async def test_our_headers_are_checked_before_the_body_is_read(served: Served) -> None:
    async with served.client.post(
        "/v1/messages", json=MESSAGES, headers={"X-ZLRS-Compute": "fast"}
    ) as response:
        error = (await response.json())["error"]
        assert response.status == 400
    assert "X-ZLRS-Compute" in error["message"]
    assert "'fast'" in error["message"]
    assert "exact, sparse-state-aware, aggressive, legacy" in error["message"]


async def test_cache_only_without_a_graph_is_a_miss(served: Served) -> None:
    async with served.client.post(
        "/v1/messages", json=MESSAGES, headers={"X-ZLRS-Cache-Only": "true"}
    ) as response:
        assert response.status == 504
        assert (await response.json())["error"]["type"] == "cache_only_miss"


@pytest.mark.parametrize(
    "request_line",
    ["GET http://localhost/livez HTTP/1.1", "CONNECT example.org:443 HTTP/1.1", "OPTIONS * HTTP/1.1"],
)
async def test_this_is_no_forward_proxy(served: Served, request_line: str) -> None:
    host, port = served.url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(f"{request_line}\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
    status = int((await reader.readline()).split()[1])
    assert 400 <= status < 500
    writer.close()


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ("Host: evil.example\r\n", 403),
        ("Host: localhost.evil.example\r\n", 403),
        ("", 400),
        ("Host: localhost\r\nHost: evil.example\r\n", 400),
        ("Host: 127.0.0.1\r\n", 200),
    ],
)
async def test_the_host_header_must_name_this_server(served: Served, headers: str, status: int) -> None:
    host, port = served.url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(f"GET /livez HTTP/1.1\r\n{headers}Connection: close\r\n\r\n".encode())
    assert int((await reader.readline()).split()[1]) == status
    writer.close()


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 401),
        ({"x-api-key": "wrong-key-of-some-length"}, 401),
        ({"authorization": "Basic a-key-of-sixteen-characters"}, 401),
        ({"x-api-key": "a-key-of-sixteen-characters"}, 200),
        ({"authorization": "Bearer a-key-of-sixteen-characters"}, 200),
        ({"authorization": "bearer a-key-of-sixteen-characters"}, 200),
        ({"authorization": "Bearer dummy", "x-api-key": "a-key-of-sixteen-characters"}, 200),
    ],
)
async def test_keys(headers: dict[str, str], status: int) -> None:
    async with serving(keys=("a-key-of-sixteen-characters",)) as served:
        for path, body in (("/v1/messages", MESSAGES), ("/v1/chat/completions", CHAT)):
            async with served.client.post(path, json=body, headers=headers) as response:
                assert response.status == status
                if status == 401:
                    error = (await response.json())["error"]
                    assert error["type"] == "authentication_error"
                    assert "a-key-of" not in json.dumps(error)
        for path in ("/livez", "/readyz", "/startupz"):
            async with served.client.get(path) as response:
                assert response.status == 200
        async with served.client.get("/v1/models", headers=headers) as response:
            assert response.status == status
