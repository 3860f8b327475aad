"""An engine over TLS: a real dockerd that wants a client's certificate."""

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from muster.domain.errors import InvalidRequest
from muster.integrations.docker.api import Engine as Api
from muster.integrations.docker.api import NoAnswer
from muster.integrations.docker.tables import EngineConfig
from tests.e2e.site import free_port
from tools.engines.running import Engine


class Authority:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "authority")])
        self._write("ca", self._key, self._signed(self._name, self._key.public_key(), ca=True))

    def issue(self, name: str) -> None:
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        self._write(name, key, self._signed(subject, key.public_key(), ca=False))

    def _signed(self, subject: x509.Name, key: ec.EllipticCurvePublicKey, *, ca: bool) -> x509.Certificate:
        now = datetime.now(UTC)
        here = x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))])
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(days=1))
            .not_valid_after(now + timedelta(days=1))
            .add_extension(x509.BasicConstraints(ca=ca, path_length=None), critical=True)
            .add_extension(here, critical=False)
            .sign(self._key, hashes.SHA256())
        )

    def _write(self, name: str, key: ec.EllipticCurvePrivateKey, certificate: x509.Certificate) -> None:
        pem, plain = serialization.Encoding.PEM, serialization.NoEncryption()
        private = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, plain)
        (self._folder / f"{name}.key").write_bytes(private)
        (self._folder / f"{name}.pem").write_bytes(certificate.public_bytes(pem))


async def test_an_engine_over_tls_knows_its_client_and_the_client_its_engine(
    own_engine: Callable[..., Engine], tmp_path: Path
) -> None:
    authority = Authority(tmp_path)
    authority.issue("server")
    authority.issue("client")
    port = free_port()
    files = {"tlscacert": "ca.pem", "tlscert": "server.pem", "tlskey": "server.key"}
    options = ("--tlsverify", *(f"--{name}={tmp_path / file}" for name, file in files.items()))
    own_engine("dockerd", listen=f"tcp://127.0.0.1:{port}", options=options)
    known = EngineConfig(
        name="far",
        host=f"https://127.0.0.1:{port}",
        ca=tmp_path / "ca.pem",
        cert=tmp_path / "client.pem",
        key=tmp_path / "client.key",
    )
    engine = Api(known)
    assert await engine.get("/containers/json") == []
    await engine.close()
    for stranger in (replace(known, cert=None, key=None), replace(known, ca=None)):
        engine = Api(stranger)
        with pytest.raises(NoAnswer):
            await engine.get("/containers/json")
        await engine.close()


def test_certificates_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidRequest, match=r"certificates can't be read .*absent\.pem"):
        Api(EngineConfig(name="far", host="https://127.0.0.1:1", ca=tmp_path / "absent.pem"))
