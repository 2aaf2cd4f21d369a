"""From a name, a path or a URL to a checked file on disk."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import shutil
from functools import partial as partial_call
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urldefrag, urlsplit

from zlrs.models.errors import ChecksumError, DownloadError, ModelStoreError
from zlrs.models.registry import Model, find_model, known_models
from zlrs.models.sources import fetch_parts, fetch_url, require_safe_url
from zlrs.models.store import check_sum, home, models_folder
from zlrs.progress import Progress

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

URL_SCHEMES = ("https://", "http://")
SUM_FRAGMENT = "sha256="


def _is_path(name: str) -> bool:
    return name.endswith(".gguf") or os.sep in name or name.startswith((".", "~"))


def path_of(model: Model) -> Path:
    """Where the finished file of a known model lies, whether or not it is there."""
    return models_folder() / model.file


@contextlib.contextmanager
def _exclusive(name: str) -> Iterator[Path]:
    """One download of a model at a time on this machine; yields its working folder.

    A second process waits and then finds the finished file.
    """
    folder = home() / "downloads" / name
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield folder


def _publish(downloaded: Path, target: Path) -> None:
    """Make a checked file visible under its final name: synced to disk, then renamed in one step."""
    with downloaded.open("rb") as file:
        os.fsync(file.fileno())
    target.parent.mkdir(parents=True, exist_ok=True)
    os.replace(downloaded, target)  # noqa: PTH105 - the atomic call by its own name


def _sources(model: Model, folder: Path) -> Iterator[Callable[[], Path]]:
    """The ways to get the file, in order; each fetches into `folder` and returns a checked file."""

    def checked(path: Path) -> Path:
        try:
            check_sum(path, model.sha256, model.name)
        except ChecksumError:
            path.unlink(missing_ok=True)
            raise
        return path

    def from_url(url: str) -> Path:
        partial = folder / f"{hashlib.sha256(url.encode()).hexdigest()[:16]}.partial"
        with Progress(f"fetching {model.name}", model.bytes) as bar:
            fetch_url(url, partial, bar.update)
        return checked(partial)

    def from_parts() -> Path:
        joined = folder / "joined.partial"
        with Progress(f"fetching {model.name} in {len(model.parts)} parts", model.bytes) as bar:
            fetch_parts(model.parts, folder, joined, bar.update)
        return checked(joined)

    for url in model.urls:
        yield partial_call(from_url, url)
    if model.parts:
        yield from_parts


def pull(name: str) -> Path:
    """Make sure the model's file is on disk, checked, under its final name; return its path.

    The sources of the registry are tried in order; each failure is kept and all are named when none works.
    A file that is there already is not read again (`verify` does that).

    Raises:
        UnknownModelError: The name is not known.
        DownloadError: No source could deliver it.
        ChecksumError: What arrived is not the known file.
    """
    if name.startswith(URL_SCHEMES):
        return _pull_url(name)
    model = find_model(name)
    target = path_of(model)
    if target.exists():
        return target
    failures: list[str] = []
    with _exclusive(model.name) as folder:
        if target.exists():
            return target
        for source in _sources(model, folder):
            try:
                downloaded = source()
            except ModelStoreError as error:
                failures.append(error.message)
                continue
            _publish(downloaded, target)
            shutil.rmtree(folder, ignore_errors=True)
            return target
    raise DownloadError(
        f"no source could deliver {model.name}: " + "; ".join(failures),
        f"Check the network and run `zlrs models pull {model.name}` again (it continues where it stopped), "
        f"or put the file at {target}",
    )


def _pull_url(url: str) -> Path:
    """Fetch a model by URL; `#sha256=HEX` at its end is checked, without it nothing is known to compare."""
    address, fragment = urldefrag(url)
    require_safe_url(address)
    expected = fragment.removeprefix(SUM_FRAGMENT) if fragment.startswith(SUM_FRAGMENT) else None
    key = hashlib.sha256(address.encode()).hexdigest()[:16]
    file_name = Path(urlsplit(address).path).name or "model.gguf"
    target = models_folder() / f"{key}-{file_name}"
    with _exclusive(key) as folder:
        if not target.exists():
            partial = folder / "url.partial"
            with Progress(f"fetching {file_name}", 0) as bar:
                fetch_url(address, partial, bar.update)
            if expected is not None:
                try:
                    check_sum(partial, expected.lower(), file_name)
                except ChecksumError:
                    partial.unlink(missing_ok=True)
                    raise
            _publish(partial, target)
            shutil.rmtree(folder, ignore_errors=True)
        elif expected is not None:
            check_sum(target, expected.lower(), file_name)
    return target


def resolve(name: str | Path, *, download: bool = True) -> Path:
    """The file of a model given as a path, a URL, or a known name.

    Args:
        name: What the user wrote. Something that looks like a path (a separator, a `.gguf` ending) is one.
        download: Fetch a known model or URL that is not here yet.

    Raises:
        ModelStoreError: No such file, unknown name, or (without `download`) not fetched yet.
    """
    text = os.fspath(name)
    if text.startswith(URL_SCHEMES):
        return _pull_url(text)
    path = Path(text).expanduser()
    if path.is_file():
        return path
    if _is_path(text):
        raise ModelStoreError(
            f"there is no file {text!r}", "Check the path, or give a name from `zlrs models list`"
        )
    model = find_model(text)
    target = path_of(model)
    if not target.exists() and not download:
        raise ModelStoreError(
            f"{model.name} has not been fetched yet", f"Run `zlrs models pull {model.name}`"
        )
    return target if target.exists() else pull(model.name)


def verify(name: str) -> Path:
    """Read a known model's file and compare its sum.

    Raises:
        ModelStoreError: It is not there, or not the known file.
    """
    model = find_model(name)
    target = resolve(model.name, download=False)
    with Progress(f"checking {model.name}", model.bytes) as bar:
        check_sum(target, model.sha256, model.name, bar.update)
    return target


def remove(name: str) -> list[Path]:
    """Delete a known model's file and what is left of its downloads; returns what was deleted."""
    model = find_model(name)
    gone: list[Path] = []
    target = path_of(model)
    if target.exists():
        target.unlink()
        gone.append(target)
    folder = home() / "downloads" / model.name
    if folder.exists():
        shutil.rmtree(folder)
        gone.append(folder)
    return gone


def installed() -> list[tuple[Model, Path | None]]:
    """Every known model with its file, or None where it has not been fetched."""
    return [(model, path_of(model) if path_of(model).exists() else None) for model in known_models()]
