"""Sessions of `zlrs serve` over a restart, on the small real model: what is reported as restored is used."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from typing import TYPE_CHECKING

import pytest

from support.real_model import small_model
from support.serve_process import serve_process

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.t1

SYSTEM = (
    "You are a clerk at a small station. You know every train and you answer in one short sentence.\n" * 3
)
KEYS = ("key-of-anne-0123456789", "key-of-bela-0123456789")


def ask(url: str, text: str, key: str, **headers: str) -> tuple[int, dict, str]:
    body = {
        "model": small_model().stem, "max_tokens": 12, "temperature": 0, "system": SYSTEM,
        "messages": [{"role": "user", "content": text}], "zlrs": {"append": True},
    }  # fmt: skip
    fields = {"content-type": "application/json", "x-api-key": key}
    fields |= {"X-ZLRS-" + name: value for name, value in headers.items()}
    request = urllib.request.Request(f"{url}/v1/messages", json.dumps(body).encode(), fields)
    try:
        with urllib.request.urlopen(request) as response:
            return response.status, json.load(response), response.headers["X-ZLRS-Session"]
    except urllib.error.HTTPError as error:
        return error.code, json.load(error), ""


def test_a_session_goes_on_after_a_restart_and_a_damaged_one_is_told(tmp_path: Path) -> None:
    keys = tmp_path / "keys"
    keys.write_text("\n".join(KEYS))
    folder = tmp_path / "sessions"
    arguments = (
        str(small_model()), "--context-tokens", "1024", "--keys-file", str(keys), "--warmup", "1",
        "--sessions-path", str(folder),
    )  # fmt: skip
    with serve_process(*arguments) as serving:
        status, first, named = ask(serving.url, "When does the train leave?", KEYS[0], Session="create")
        assert status == 200
        assert first["usage"]["cache_read_input_tokens"] == 0
        secret = named.partition(";secret=")[2]
        # Another user who asks the same finds nothing computed: timing has nothing to tell.
        status, other, _ = ask(serving.url, "When does the train leave?", KEYS[1], Session="create")
        assert (status, other["usage"]["cache_read_input_tokens"]) == (200, 0)
    files = sorted(folder.glob("*.zlrs-session"))
    assert len(files) == 2
    assert all(file.stat().st_mode & 0o777 == 0o600 for file in files)
    with serve_process(*arguments) as serving:
        assert ask(serving.url, "And the next?", KEYS[1], Session=secret)[0] == 403
        status, second, _ = ask(serving.url, "And the next?", KEYS[0], Session=secret)
        assert status == 200, second
        restored = second["usage"]["cache_read_input_tokens"]
        assert restored > 64
        assert second["zlrs"]["session"]["answers"] == 2
        # The same conversation sent whole, by a tenant who has nothing: equal to the last token.
        status, _, fresh = ask(serving.url, "When does the train leave?", KEYS[1], Session="create")
        again = fresh.partition(";secret=")[2]
        status, whole, _ = ask(serving.url, "And the next?", KEYS[1], Session=again)
        assert whole["content"] == second["content"]
    for file in files:
        data = bytearray(file.read_bytes())
        data[len(data) // 2] ^= 1
        file.write_bytes(data)
    with serve_process(*arguments) as serving:
        status, refused, _ = ask(serving.url, "And then?", KEYS[0], Session=secret)
        assert (status, refused["error"]["type"]) == (409, "kv_corrupt")
        assert ask(serving.url, "And then?", KEYS[0], Session=secret)[0] == 404
        assert ask(serving.url, "When does the train leave?", KEYS[0], Session="create")[0] == 200
