"""An upstream is only trusted with a certificate that is good for its name."""

from __future__ import annotations

import shutil
import ssl
import subprocess

import pytest

from support.mock_upstream import MockUpstream
from support.running import message
from zlrs_proxy.settings import SettingsError

OPENSSL = shutil.which("openssl")
pytestmark = pytest.mark.skipif(OPENSSL is None, reason="needs the openssl command to make certificates")


def certificate(folder, names: str, days: str = "2") -> tuple[str, ssl.SSLContext]:
    """A self-signed certificate's file, and the server's side of it."""
    cert, key = str(folder / "cert.pem"), str(folder / "key.pem")
    command = [
        OPENSSL, "req", "-x509", "-nodes", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1",
        "-days", days, "-subj", "/CN=test", "-addext", f"subjectAltName={names}",
        "-keyout", key, "-out", cert,
    ]  # fmt: skip
    subprocess.run(command, check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key)
    return cert, context


@pytest.mark.parametrize(
    ("names", "trusted", "status"),
    [("IP:127.0.0.1", True, 200), ("IP:127.0.0.1", False, 502), ("DNS:elsewhere.example", True, 502)],
)
async def test_certificates_are_checked(start_sidecar, tmp_path, names, trusted, status) -> None:
    cert, context = certificate(tmp_path, names)
    secure = MockUpstream()
    await secure.start(context)
    try:
        sidecar = await start_sidecar(upstream=secure.url, upstream_ca_file=cert if trusted else None)
        got = await sidecar.ask(body=message())
    finally:
        await secure.stop()
    assert got.status == status
    assert len(secure.calls) == (status == 200)
    assert status == 200 or b"certificate" in got.body


async def test_an_authority_file_that_is_none(start_sidecar, tmp_path) -> None:
    (tmp_path / "ca.pem").write_text("nothing")
    for path in ("ca.pem", "absent.pem"):
        with pytest.raises(SettingsError, match="upstream_ca_file"):
            await start_sidecar(upstream_ca_file=str(tmp_path / path))
