"""Every path of both protocols goes through: the request's bytes up, the answer's bytes down."""

from __future__ import annotations

import gzip

import pytest

from support.mock_upstream import Reply, dump, event
from support.running import message

STREAM = [event(f"response.{name}", {"type": f"response.{name}", "sequence_number": number})
          for number, name in enumerate(["created", "output_text.delta", "completed"])]  # fmt: skip
LINES = b"".join(
    dump({"custom_id": str(number), "result": {"type": "succeeded"}}) + b"\n" for number in range(50)
)


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/v1/messages/count_tokens?beta=true"),
        ("POST", "/v1/messages/batches"),
        ("GET", "/v1/messages/batches?limit=2&after_id=b%2F1"),
        ("GET", "/v1/messages/batches/msgbatch_1"),
        ("POST", "/v1/messages/batches/msgbatch_1/cancel"),
        ("DELETE", "/v1/messages/batches/msgbatch_1"),
        ("POST", "/v1/responses"),
        ("GET", "/v1/responses/resp_1/input_items"),
        ("GET", "/v1/models?limit=1000"),
        ("GET", "/v1/models/claude-x"),
        ("HEAD", "/api/hello"),
    ],
)
async def test_requests_of_both_protocols_are_relayed(start_sidecar, upstream, method, path) -> None:
    sidecar = await start_sidecar()
    sent = b'{ "odd" :  1.50, "new_field": {"a":[1,2]} }' if method == "POST" else None
    said = b"" if method == "HEAD" else b'{ "input_tokens":  5 }'
    upstream.default = lambda _: Reply(body=said, headers=[("request-id", "req_1")])
    got = await sidecar.ask(path, method=method, data=sent, headers={"anthropic-beta": "a-1,b-2"})
    seen = upstream.calls[0]
    assert (seen.method, seen.path, seen.body) == (method, path, sent or b"")
    assert seen.header("anthropic-beta") == ["a-1,b-2"]
    assert got.status == 200
    assert got.header("request-id") == "req_1"
    assert got.body == said


async def test_a_stream_of_responses_and_a_file_of_results_pass_unchanged(start_sidecar, upstream) -> None:
    sidecar = await start_sidecar()
    upstream.replies.append(Reply(pieces=STREAM, headers=[("Content-Type", "text/event-stream")]))
    got = await sidecar.ask("/v1/responses", {"model": "m", "input": "hi", "stream": True})
    assert got.body == b"".join(STREAM)
    assert got.header("x-accel-buffering") == "no"
    packed = gzip.compress(LINES)
    upstream.replies.append(
        Reply(body=packed, headers=[("Content-Type", "application/x-jsonl"), ("Content-Encoding", "gzip")])
    )
    got = await sidecar.ask("/v1/messages/batches/b/results", method="GET")
    assert got.body == packed
    assert got.header("content-encoding") == "gzip"
    assert got.header("x-accel-buffering") is None


async def test_an_upstreams_own_word_on_buffering_stays(start_sidecar, upstream) -> None:
    sidecar = await start_sidecar()
    said = [("Content-Type", "text/event-stream"), ("X-Accel-Buffering", "yes")]
    upstream.replies.append(Reply(pieces=STREAM, headers=said))
    assert (await sidecar.ask(body=message(stream=True))).all("x-accel-buffering") == ["yes"]


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/v1/messages", 200),
        ("/v1/messages/batches/b_1/results", 200),
        ("/v1/responses/r_1", 200),
        ("/v1/models", 200),
        ("/v1/files", 404),
        ("/v1/messagesx", 404),
        ("/v1/models/%2e%2e/admin", 400),
        ("/v1/models/../admin", 400),
        ("/v1/models/%61dmin", 404),
        ("/", 404),
    ],
)
async def test_unknown_paths_are_refused_where_that_is_configured(
    start_sidecar, upstream, path, status
) -> None:
    sidecar = await start_sidecar(unknown_paths="refuse")
    got = await sidecar.ask(path, message())
    assert got.status == status
    assert len(upstream.calls) == (status == 200)
