"""`zlrs graph export --full`, `import`, `warm`, and purging by what was asked about."""

from __future__ import annotations

import json
import shutil
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from zlrs.cli.dispatch import main
from zlrs.graph import DecisionGraph, GraphFiles, GraphSettings

HEAD = [(b"content-type", b"application/json")]
SETTINGS = GraphSettings(read_deadline_ms=1000, credential_check=False)


def now_ms():
    return time.time_ns() // 1_000_000


def request(text, model="m"):
    body = {
        "model": model,
        "max_tokens": 9,
        "temperature": 0,
        "messages": [{"role": "user", "content": text}],
    }
    return ("POST", "/v1/messages", "", [(b"x-api-key", b"k")], json.dumps(body).encode(), "upstream")


def answer(text):
    return json.dumps(
        {
            "id": "1", "type": "message", "role": "assistant", "model": "m-1",
            "content": [{"type": "text", "text": text}], "stop_reason": "end_turn", "stop_sequence": None,
            "usage": {"input_tokens": 1, "output_tokens": 2},
        }
    ).encode()  # fmt: skip


ASKS = [
    ("When did order 1042 ship?", "m"),
    ("What did order 1042 cost?", "m"),
    ("When did order 1043 ship?", "m"),
    ("Who is Ada Novak?", "m"),
    ("Who is Boris Lindt?", "other"),
    ("How are you?", "other"),
]


@pytest.fixture
def folder(tmp_path):
    path = tmp_path / "graph"
    with DecisionGraph(path, SETTINGS) as graph:
        for text, model in ASKS:
            decision = graph.decide(*request(text, model), now_ms())
            assert graph.settle(decision, 200, HEAD, answer("Yes."), True, now_ms()) == "stored"
        graph.flush()
    return path


def known(path):
    with DecisionGraph(path, SETTINGS) as graph:
        return [text for text, model in ASKS if graph.decide(*request(text, model), now_ms()).kind == "hit"]


@pytest.mark.parametrize(
    ("options", "gone"),
    [
        (["--entity", "order 1042"], [0, 1]),
        (["--entity", "Novak"], [3]),
        (["--entity", "Ada Novak"], [3]),
        (["--model", "other"], [4, 5]),
        (["--model", "m-1"], [0, 1, 2, 3, 4, 5]),
        (["--model", "m-2"], []),
        (["--factor", "tier=gold"], []),
        (["--older-than-hours", "0"], [0, 1, 2, 3, 4, 5]),
    ],
)
def test_purge_by_what_was_asked(folder, capsys, options, gone) -> None:
    assert len(known(folder)) == len(ASKS)
    assert main(["graph", "purge", "--graph", str(folder), *options]) == 0
    assert "entries removed" in capsys.readouterr().out
    assert known(folder) == [text for number, (text, _) in enumerate(ASKS) if number not in gone]


def recorded(path, kind):
    lines = [line for chain in (path / "audit").iterdir() for line in chain.read_text().splitlines()]
    return [body for body in (json.loads(line)["body"] for line in lines) if body["kind"] == kind]


def test_purges_and_imports_leave_a_record_without_any_text(folder, tmp_path, capsys) -> None:
    assert main(["graph", "export", "--full", "--graph", str(folder)]) == 0
    lines = capsys.readouterr().out
    file = tmp_path / "entries.jsonl"
    file.write_text(lines)
    copy = tmp_path / "copy"
    copy.mkdir(mode=0o700)
    shutil.copy2(folder / "graph.key", copy / "graph.key")
    assert main(["graph", "import", str(file), "--graph", str(copy)]) == 0
    imported = recorded(copy, "imported")
    keys = [json.loads(line)["key"] for line in lines.splitlines()]
    assert [body["entry"] for body in imported] == keys
    assert main(["graph", "purge", "--graph", str(copy), "--entity", "order 1042"]) == 0
    assert main(["graph", "purge", "--graph", str(copy), "--all"]) == 0
    by_entity, everything = sorted(recorded(copy, "purged"), key=lambda body: body["what"], reverse=True)
    assert (by_entity["what"], everything["what"]) == ("entity", "all")
    assert by_entity["entries"] >= 2
    assert by_entity["entries"] + everything["entries"] == len(keys)
    assert all(name != "1042" for name in by_entity["which"])
    assert GraphFiles(copy).verify().faults == 0


def test_a_purge_by_nothing_is_refused(folder, capsys) -> None:
    assert main(["graph", "purge", "--graph", str(folder), "--entity", "the"]) == 1
    assert "names nothing" in capsys.readouterr().err
    assert main(["graph", "purge", "--graph", str(folder), "--entity", "x", "--model", "m"]) == 1
    assert "exactly one" in capsys.readouterr().err


def test_entries_move_to_a_graph_with_the_same_key_and_can_be_purged_there(folder, tmp_path, capsys) -> None:
    assert main(["graph", "export", "--full", "--graph", str(folder)]) == 0
    lines = capsys.readouterr().out
    file = tmp_path / "entries.jsonl"
    file.write_text(lines)
    copy = tmp_path / "copy"
    copy.mkdir(mode=0o700)
    shutil.copy2(folder / "graph.key", copy / "graph.key")
    assert main(["graph", "import", str(file), "--graph", str(copy)]) == 0
    assert f"{len(lines.splitlines()):>6}  stored" in capsys.readouterr().out
    assert len(known(copy)) == len(ASKS)
    assert GraphFiles(copy).verify().faults == 0
    assert main(["graph", "purge", "--graph", str(copy), "--entity", "order 1042"]) == 0
    assert len(known(copy)) == len(ASKS) - 2


def test_a_strangers_entries_need_trust_and_serve_nobody(folder, tmp_path, capsys) -> None:
    assert main(["graph", "export", "--full", "--graph", str(folder)]) == 0
    file = tmp_path / "entries.jsonl"
    file.write_text(capsys.readouterr().out)
    other = tmp_path / "other"
    with DecisionGraph(other, SETTINGS):
        pass
    assert main(["graph", "import", str(file), "--graph", str(other)]) == 1
    assert "untrusted" in capsys.readouterr().out
    key = GraphFiles(folder).public_key()
    assert main(["graph", "import", str(file), "--graph", str(other), "--trusted", key]) == 0
    assert "stored" in capsys.readouterr().out
    assert known(other) == []
    assert GraphFiles(other).verify().faults == 0, "signed anew"
    assert main(["graph", "import", str(file), "--graph", str(other), "--trusted", "no"]) == 1
    assert "public key" in capsys.readouterr().err


@pytest.mark.parametrize("change", ["body", "expires_ms", "tenant"])
def test_an_edited_line_is_not_taken_in(folder, tmp_path, capsys, change) -> None:
    assert main(["graph", "export", "--full", "--graph", str(folder)]) == 0
    line = json.loads(capsys.readouterr().out.splitlines()[0])
    value = line[change]
    line[change] = value + 1 if isinstance(value, int) else value[:-1] + ("0" if value[-1] != "0" else "1")
    file = tmp_path / "entries.jsonl"
    file.write_text(json.dumps(line) + "\n{}\n")
    assert main(["graph", "import", str(file), "--graph", str(folder)]) == 1
    shown = capsys.readouterr().out
    assert "untrusted" in shown
    assert "malformed" in shown


class Listener(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.server.seen.append((self.path, body, dict(self.headers)))
        self.send_response(200)
        self.send_header("X-ZLRS-Decision", "miss;route=same;node=00")
        self.send_header("content-length", "2")
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, *_: object) -> None:
        """Be silent."""


@pytest.fixture
def listener():
    server = ThreadingHTTPServer(("127.0.0.1", 0), Listener)
    server.seen = []
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


def test_warm_asks_each_line(listener, tmp_path, monkeypatch, capsys) -> None:
    file = tmp_path / "questions.txt"
    whole = {"model": "n", "max_tokens": 5, "messages": [{"role": "user", "content": "Hi"}]}
    file.write_text(f"# ours\nWhere is order 7?\n\n{json.dumps(whole)}\n")
    monkeypatch.setenv("A_KEY", "sk-one")
    url = f"http://127.0.0.1:{listener.server_port}/"
    command = [
        "graph",
        "warm",
        str(file),
        "--url",
        url,
        "--model",
        "m",
        "--key-env",
        "A_KEY",
        "--system",
        "S",
    ]
    assert main(command) == 0
    assert "2  miss" in capsys.readouterr().out
    bodies = sorted((body for _, body, _ in listener.seen), key=lambda body: body["model"])
    assert bodies[0]["messages"][0]["content"] == "Where is order 7?"
    assert (bodies[0]["temperature"], bodies[0]["system"]) == (0, "S")
    assert bodies[1] == whole
    assert all(headers["X-Api-Key"] == "sk-one" for _, _, headers in listener.seen)
    listener.seen.clear()
    assert main([*command, "--chat"]) == 0
    assert {path for path, _, _ in listener.seen} == {"/v1/chat/completions"}


def test_warm_says_what_it_lacks(tmp_path, capsys) -> None:
    file = tmp_path / "questions.txt"
    file.write_text("Where is order 7?\n")
    assert main(["graph", "warm", str(file)]) == 1
    assert "--model" in capsys.readouterr().err
    assert main(["graph", "warm", str(tmp_path / "none"), "--model", "m"]) == 1
    assert "there is no file" in capsys.readouterr().err
    assert main(["graph", "warm", str(file), "--model", "m", "--url", "http://127.0.0.1:1"]) == 1
    assert "does not answer" in capsys.readouterr().err
