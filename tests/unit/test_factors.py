from __future__ import annotations

import json
import socket
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import TYPE_CHECKING

import pytest

from zlrs.errors import ConfigurationError
from zlrs.factors import Factor, Factors, callable_provider, configured, http_provider, redis_provider
from zlrs.graph import DecisionGraph, GraphSettings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

NOW_MS = 1_800_000_000_000


def body(text: str = "How long is the return period?") -> bytes:
    return json.dumps(
        {"model": "m", "max_tokens": 9, "temperature": 0, "messages": [{"role": "user", "content": text}]}
    ).encode()


ANSWER = json.dumps(
    {
        "id": "1",
        "type": "message",
        "role": "assistant",
        "model": "m",
        "stop_sequence": None,
        "content": [{"type": "text", "text": "Thirty days."}],
        "stop_reason": "end_turn",
        "usage": {"input_tokens": 1, "output_tokens": 2},
    }
).encode()


def decide(graph: DecisionGraph):
    return graph.decide("POST", "/v1/messages", "", [(b"x-api-key", b"k")], body(), "up", NOW_MS)


def settle(graph: DecisionGraph, decision) -> str:
    head = [(b"content-type", b"application/json")]
    return graph.settle(decision, 200, head, ANSWER, True, NOW_MS)


@pytest.fixture
def served() -> Iterator[Callable[[Callable[[socket.socket], None]], int]]:
    """Serves one connection after another with a function; returns the port."""
    listeners: list[socket.socket] = []

    def serve(answer: Callable[[socket.socket], None]) -> int:
        listener = socket.create_server(("127.0.0.1", 0))
        listeners.append(listener)

        def run() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                with connection:
                    answer(connection)

        threading.Thread(target=run, daemon=True).start()
        return listener.getsockname()[1]

    yield serve
    for listener in listeners:
        listener.close()


def test_a_change_of_a_fact_is_a_change_of_scope() -> None:
    value = ["1"]
    clock = [0.0]
    factors = Factors([Factor("stock", lambda: value[0], ttl_seconds=0.02)], monotonic=lambda: clock[0])
    assert factors.wait(5)
    graph = DecisionGraph(None, GraphSettings(read_deadline_ms=1000), factors=factors)
    assert settle(graph, decide(graph)) == "stored"
    assert decide(graph).kind == "hit"
    value[0] = "2"
    for _ in range(500):
        if factors.current()[0] == [("stock", "2")]:
            break
        threading.Event().wait(0.01)
    changed = decide(graph)
    assert (changed.kind, changed.reason) == ("miss", "no_entry")
    now = graph.decide_now("POST", "/v1/messages", "", [(b"x-api-key", b"k")], body(), "up", NOW_MS)
    assert now is None or now.kind == "miss", "the quick way sees the same scope"
    graph.close()


def test_a_dead_provider_makes_requests_not_eligible_and_the_others_do_not_matter() -> None:
    now = [0.0]
    alive = [True]
    hung = threading.Event()

    def provider() -> str:
        if not alive[0]:
            hung.wait(20)
            raise OSError
        return "gold"

    factors = Factors(
        [Factor("tier", provider, ttl_seconds=0.05), Factor("epoch", lambda: "7", ttl_seconds=3600)],
        monotonic=lambda: now[0],
    )
    assert factors.wait(5)
    graph = DecisionGraph(None, GraphSettings(read_deadline_ms=1000), factors=factors)
    assert settle(graph, decide(graph)) == "stored"
    assert decide(graph).kind == "hit"
    alive[0] = False
    threading.Event().wait(0.1)
    now[0] += 10.0
    dead = decide(graph)
    assert (dead.kind, dead.reason, dead.header) == (
        "skipped",
        "factor_unknown",
        "skipped;reason=factor_unknown:tier",
    )
    assert settle(graph, dead) != "stored"
    now = graph.decide_now("POST", "/v1/messages", "", [(b"x-api-key", b"k")], body(), "up", NOW_MS)
    assert now is None or now.reason == "factor_unknown"
    hung.set()
    graph.close()


def test_what_is_no_value_is_none() -> None:
    for bad in (lambda: 7, lambda: "x" * 5000, lambda: 1 / 0):
        factors = Factors([Factor("a", bad, ttl_seconds=0.01)])  # type: ignore[arg-type]
        assert not factors.wait(0.05)
        assert factors.current() == ([], "a")
        factors.close()


def test_http_gives_the_body_of_a_200_and_follows_nothing() -> None:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, text = {"/good": (200, " 2026-03\n"), "/empty": (204, ""), "/moved": (302, "")}[self.path]
            self.send_response(status)
            if status == 302:
                self.send_header("location", "/good")
            self.send_header("content-length", str(len(text)))
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, *_: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    base = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        assert http_provider(base + "/good", 5)() == "2026-03"
        for path in ("/empty", "/moved"):
            with pytest.raises(OSError):
                http_provider(base + path, 5)()
    finally:
        server.shutdown()
        server.server_close()


def test_a_provider_that_never_answers_gives_up_in_time(served) -> None:
    ended = threading.Event()

    def hang(connection: socket.socket) -> None:
        ended.wait(20)

    port = served(hang)
    with pytest.raises(OSError):
        http_provider(f"http://127.0.0.1:{port}/", 0.05)()
    with pytest.raises(OSError):
        redis_provider(f"redis://127.0.0.1:{port}", "k", 0.05)()
    ended.set()


def test_redis_speaks_its_protocol(served) -> None:
    received: list[bytes] = []

    def answer(connection: socket.socket) -> None:
        for reply in (b"+OK\r\n", b"+OK\r\n", b"$4\r\ngold\r\n"):
            received.append(connection.recv(1000))
            connection.sendall(reply)

    port = served(answer)
    assert redis_provider(f"redis://:s%20cret@127.0.0.1:{port}/3", "tier", 5)() == "gold"
    assert received == [
        b"*2\r\n$4\r\nAUTH\r\n$6\r\ns cret\r\n",
        b"*2\r\n$6\r\nSELECT\r\n$1\r\n3\r\n",
        b"*2\r\n$3\r\nGET\r\n$4\r\ntier\r\n",
    ]


@pytest.mark.parametrize("reply", [b"$-1\r\n", b"-ERR no\r\n", b"$99999\r\n", b":7\r\n", b"", b"$x\r\n"])
def test_redis_without_a_value_is_an_error(served, reply: bytes) -> None:
    def answer(connection: socket.socket) -> None:
        connection.recv(1000)
        connection.sendall(reply)

    with pytest.raises((OSError, ValueError)):
        redis_provider(f"redis://127.0.0.1:{served(answer)}", "tier", 5)()


def test_configuration_is_checked() -> None:
    from zlrs.config import FactorSettings

    assert configured([]) is None
    made = configured([FactorSettings(name="cwd", callable="os:getcwd", ttl_seconds=9)])
    assert made is not None
    assert made.wait(5)
    made.close()
    for wrong in (
        FactorSettings(name="a"),
        FactorSettings(name="a", http="http://x", callable="os:getcwd"),
        FactorSettings(name="a", redis="redis://x"),
        FactorSettings(name="a", redis="redis://x", redis_key="k", redis_password_env="ZLRS_NOT_SET"),
        FactorSettings(name="a", callable="os:nothing"),
        FactorSettings(name="a", callable="no.such.module:nothing"),
    ):
        with pytest.raises(ConfigurationError):
            configured([wrong])
    with pytest.raises(ConfigurationError):
        Factors([Factor("a", str, 1), Factor("a", str, 1)])
    with pytest.raises(ConfigurationError):
        Factor("a b", str, 1)
    with pytest.raises(ConfigurationError):
        Factor("a", str, 0)
    with pytest.raises(ConfigurationError):
        callable_provider("os:sep")
