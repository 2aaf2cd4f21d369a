"""Comparing two ways to answer: who is asked when, and what is concluded."""

from __future__ import annotations

import json
import threading
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING

import pytest

from support.fake_engine import FakeEngine, Script
from zlrs.cli.dispatch import main
from zlrs.engine import Engine
from zlrs.errors import InvalidRequestError, UpstreamUnreachableError
from zlrs.results import Usage
from zlrs.verify import Answer, Schedule, Tally, Turn
from zlrs.verify.local import EngineArm
from zlrs.verify.prompts import BUILT_IN, read_prompts
from zlrs.verify.remote import UrlArm
from zlrs.work import Work

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def tally(pairs: list[tuple[Answer, Answer]]) -> Tally:
    made = Tally()
    for index, pair in enumerate(pairs):
        for arm, answer in enumerate(pair):
            made.add(Turn(index, index % 3, arm), answer)
    return made


def answer(
    total_ms: float, *, text: str = "same", saved: float | None = 0.0, empty: tuple[int, ...] = ()
) -> Answer:
    return Answer(text, total_ms, 10, saved, empty)


def test_both_are_asked_in_turns_and_nobody_meets_a_prompt_cold() -> None:
    turns = list(Schedule(2, 3))
    assert turns[:4] == [Turn(-1, 0, 0), Turn(-1, 0, 1), Turn(-1, 1, 0), Turn(-1, 1, 1)]
    assert turns[4:] == [
        Turn(0, 0, 0),
        Turn(0, 0, 1),
        Turn(1, 1, 1),
        Turn(1, 1, 0),
        Turn(2, 0, 0),
        Turn(2, 0, 1),
    ]
    assert len(list(Schedule(5, 1))) == 4


def test_a_difference_in_every_pair_is_sure_in_both_directions() -> None:
    faster = tally([(answer(20 + i), answer(15 + i, saved=0.25, empty=(7,))) for i in range(30)]).report()
    assert (faster.status, faster.latency_improvement_ms, faster.confidence) == ("improved", 5, 1)
    assert (faster.token_saving_pct, faster.zombie_layers) == (25, [7])
    assert faster.token_improvement_ms == pytest.approx(0.5)
    slower = tally([(answer(15 + i), answer(20 + i, saved=0.25)) for i in range(30)]).report()
    assert (slower.status, slower.latency_improvement_ms, slower.confidence) == ("worse", -5, 0)


def test_times_that_differ_without_a_cause_are_no_difference() -> None:
    report = tally([(answer(20), answer(15)) for _ in range(30)]).report()
    assert report.status == "no_difference"
    assert "nothing was left out" in report.notes[0]


def test_noise_is_undecided_and_its_confidence_near_a_half() -> None:
    noise = [3.0, -3.0, 2.0, -2.0, 1.0, -1.0]
    report = tally([(answer(20 + shift), answer(20, saved=0.1)) for shift in noise * 5]).report()
    assert report.status == "undecided"
    assert 0.2 < report.confidence < 0.8


def test_other_texts_are_counted_and_said() -> None:
    report = tally(
        [(answer(20), answer(15, text="other" if i % 4 == 0 else "same")) for i in range(8)]
    ).report()
    assert report.identical_answers_pct == 75
    assert any("25.0%" in note for note in report.notes)


def test_what_answers_do_not_say_is_null() -> None:
    report = tally([(answer(20, saved=None), answer(15, saved=None)) for _ in range(9)]).report()
    assert report.token_saving_pct is None
    assert report.status == "improved"
    with pytest.raises(ValueError, match="complete"):
        Tally().report()


def test_prompts_come_from_lines_or_objects(tmp_path: Path) -> None:
    plain, lines = tmp_path / "a.txt", tmp_path / "a.jsonl"
    plain.write_text("one\n\n two \n")
    lines.write_text('{"prompt": "one", "id": 3}\n"two"\n')
    assert read_prompts(plain) == read_prompts(lines) == ["one", "two"]
    for text, message in (("{}\n", "line 1"), ("[1\n", "not JSON"), ("", "no prompt")):
        lines.write_text(text)
        with pytest.raises(InvalidRequestError, match=message):
            read_prompts(lines)


class Endpoint(BaseHTTPRequestHandler):
    """Answers the Messages API; says what it left out as its server is told."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self._send(200, {"data": [{"id": "some-model"}]}, {})

    def do_POST(self) -> None:
        self.server.asked.append(dict(self.headers.items()))  # type: ignore[attr-defined]
        self.rfile.read(int(self.headers["content-length"]))
        aggressive = self.headers.get("x-zlrs-compute") == "aggressive"
        receipt: dict[str, object] = {"compute_profile": {"sparse_skips": 0, "row_layer_skips": 0}}
        headers = {"X-ZLRS-Model-Info": "m;zero-layer=;zero-heads="}
        if aggressive and self.server.masked:  # type: ignore[attr-defined]
            receipt["zero_layer"] = {"saved_share": 0.125}
            headers = {"X-ZLRS-Model-Info": "m;zero-layer=7,15;zero-heads=3.1"}
        body = {
            "content": [{"type": "text", "text": "Hello."}],
            "usage": {"output_tokens": 3},
            "zlrs": receipt,
        }
        status = self.server.status  # type: ignore[attr-defined]
        self._send(status, body if status == 200 else {"error": "no"}, headers)

    def _send(self, status: int, body: object, headers: dict[str, str]) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        for name, value in {**headers, "content-length": str(len(data))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def endpoint(*, masked: bool = False, status: int = 200) -> Iterator[tuple[str, list[dict[str, str]]]]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Endpoint)
    server.daemon_threads = True
    server.masked, server.status, server.asked = masked, status, []  # type: ignore[attr-defined]
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", server.asked  # type: ignore[attr-defined]
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def test_a_url_is_compared_with_itself_asked_for_less(capsys: pytest.CaptureFixture[str]) -> None:
    with endpoint(masked=True) as (url, asked):
        assert main(["verify", url, "--repeats", "4"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["token_saving_pct"], report["zombie_layers"]) == (12.5, [7, 15])
    assert (report["repeats"], report["identical_answers_pct"]) == (4, 100)
    assert len(asked) == 2 * 4 + 2 * 4
    lower = [{name.lower(): value for name, value in headers.items()} for headers in asked]
    assert sum(headers.get("x-zlrs-compute") == "aggressive" for headers in lower) == len(asked) / 2
    assert all(headers["x-zlrs-no-graph"] == "true" for headers in lower)


def test_a_url_that_leaves_nothing_out_is_said_to(capsys: pytest.CaptureFixture[str]) -> None:
    with endpoint() as (url, _):
        assert main(["verify", url + "/v1", "--repeats", "3", "--max-tokens", "2"]) == 0
    said = capsys.readouterr()
    assert json.loads(said.out)["status"] == "no_difference"
    assert "nothing was left out" in said.err


def test_credentials_come_from_a_variable_and_another_url_from_a_flag(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOME_KEY", "sk-0123456789abcdef")
    with endpoint() as (url, asked), endpoint() as (other, asked_other):
        options = ["--against", other, "--key-env", "SOME_KEY", "--repeats", "2"]
        assert main(["verify", url, *options]) == 0
        assert main(["verify", url, "--key-env", "NO_SUCH_KEY"]) == 1
    assert len(asked) == len(asked_other) == 4
    assert all(headers["x-api-key"] == "sk-0123456789abcdef" for headers in asked + asked_other)
    assert "sk-0123456789abcdef" not in capsys.readouterr().err


def test_what_is_no_answer_is_an_error() -> None:
    def arm(url: str) -> UrlArm:
        return UrlArm(url, model="m", protocol="messages", max_tokens=4, headers={}, timeout_s=5)

    with endpoint(status=500) as (url, _):
        with pytest.raises(UpstreamUnreachableError, match="answered 500"):
            arm(url).ask("Hello")
        closed = url
    with pytest.raises(UpstreamUnreachableError, match="cannot be asked"):
        arm(closed).ask("Hello")
    for wrong in ("ftp://host", "http://", "http://user:pass@host", "http://host:x"):
        with pytest.raises(InvalidRequestError):
            arm(wrong)


def test_wrong_use_of_the_command_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", "some-model"]) == 1
    assert "--mask FILE, --exits FILE or --neurons FILE" in capsys.readouterr().err
    assert main(["verify", "http://127.0.0.1:1", "--repeats", "0"]) == 1
    assert "--repeats is 0" in capsys.readouterr().err
    assert main(["verify", "http://127.0.0.1:1", "--model", "m", "--header", "no colon"]) == 1
    assert "NAME: VALUE" in capsys.readouterr().err
    assert len(set(BUILT_IN)) == len(BUILT_IN)


def test_work_is_counted_over_the_tokens_that_were_computed() -> None:
    # 100 for the head, 300 in 3 layers; a mask leaves out half of the layers' work.
    full, masked = Work(400, 400, 100, 3), Work(400, 250, 100, 3)
    assert (full.saved_share(), masked.saved_share()) == (0, 0.375)
    decoded = Usage(input_tokens=10, output_tokens=5, cached_tokens=10)
    assert full.saved_share(decoded) == 0
    assert masked.saved_share(decoded) == pytest.approx(0.375)
    with_prompt = Usage(input_tokens=10, output_tokens=5, cached_tokens=0)
    # Prompt tokens need no head: 15 x 300 + 5 x 100 against 15 x 150 + 5 x 100.
    assert masked.saved_share(with_prompt) == pytest.approx(1 - 2750 / 5000)
    early = replace(decoded, row_layer_skips=5)
    # Five times one layer of three.
    assert full.saved_share(early) == pytest.approx(500 / 2000)
    assert Work().saved_share(early) == 0


@pytest.mark.parametrize(
    ("aggressive", "is_counted", "installed", "saved"),
    [
        (True, True, True, True),  # exit heads: rows that left are counted
        (True, False, True, None),  # neurons: nobody counts them
        (True, False, False, 0.0),  # a file that leaves nothing out: it ran exact
        (False, True, True, 0.0),
    ],
)
def test_a_loaded_model_says_what_it_left_out_as_far_as_it_is_counted(
    aggressive: bool, is_counted: bool, installed: bool, saved: bool | float | None
) -> None:
    core = FakeEngine(Script(reply="abc"))
    core.can_skip = installed
    with Engine(core, name="some") as engine:
        arm = EngineArm(engine, 8, aggressive=aggressive, is_counted=is_counted)
        arm._work = Work(400, 400, 100, 3)
        given = arm.ask("Hello")
    assert given.text == "abc"
    assert core.submitted[-1]["compute"] == ("aggressive" if aggressive else "exact")
    if saved is True:
        assert given.saved_share is not None
        assert given.saved_share > 0
    else:
        assert given.saved_share == saved
