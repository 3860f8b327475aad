"""A region's key: signs identity documents the way EC2 does, down to lengths that end by a mark."""

import base64
import json
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import TypeAlias

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import pkcs7
from cryptography.x509.oid import NameOID


class Signer:
    def __init__(self) -> None:
        self._key = rsa.generate_private_key(public_exponent=65537, key_size=2048)

    @cached_property
    def certificate(self) -> x509.Certificate:
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "fake region")])
        now = datetime.now(UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(name)
            .public_key(self._key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(days=1))
            .not_valid_after(now + timedelta(days=365))
            .sign(self._key, hashes.SHA256())
        )

    @property
    def pem(self) -> str:
        return self.certificate.public_bytes(serialization.Encoding.PEM).decode()

    def signed(self, document: bytes) -> bytes:
        """Return what the metadata service gives under `rsa2048`: base64 of a signed message, in lines."""
        der = (
            pkcs7.PKCS7SignatureBuilder()
            .set_data(document)
            .add_signer(self.certificate, self._key, hashes.SHA256())
            .sign(serialization.Encoding.DER, [pkcs7.PKCS7Options.Binary, pkcs7.PKCS7Options.NoCerts])
        )
        return base64.encodebytes(_marked(der, _OUTER))


def document(*, instance_id: str, account: str, region: str, started: datetime, **more: str) -> bytes:
    said = {
        "accountId": account,
        "instanceId": instance_id,
        "pendingTime": started.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "region": region,
        "version": "2017-09-30",
        **more,
    }
    return json.dumps(said, indent=2, sort_keys=True).encode()


Way: TypeAlias = dict[int, "Way"]
_OUTER: Way = {0x30: {0xA0: {0x30: {0x30: {0xA0: {0x04: {}}}}}}}
"""The way to the content: what lies on it is written without lengths."""
_END = b"\0\0"


def _marked(data: bytes, way: Way) -> bytes:
    """Return the same message, with its elements in pieces that end by a mark."""
    tag, body = data[0], data[_head(data) :]
    if tag not in way:
        return data
    onward = way[tag]
    if tag == 0x04:
        return bytes([0x24, 0x80]) + data + _END
    inner = b"".join(_marked(each, onward) for each in _elements(body))
    return bytes([tag, 0x80]) + inner + _END


def _elements(body: bytes) -> list[bytes]:
    found: list[bytes] = []
    while body:
        size = _head(body) + _length(body)
        found.append(body[:size])
        body = body[size:]
    return found


def _head(data: bytes) -> int:
    return 2 if data[1] < 0x80 else 2 + data[1] - 0x80


def _length(data: bytes) -> int:
    return data[1] if data[1] < 0x80 else int.from_bytes(data[2 : _head(data)], "big")
