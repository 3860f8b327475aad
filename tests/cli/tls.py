"""TLS in front of a server: certificates of an authority of the test, and a proxy that speaks them."""

import datetime
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from urllib.parse import urlsplit

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

DAY = datetime.timedelta(days=1)


class Authority:
    """Signs certificates for host names; `file` is what clients trust."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "the test's authority")])
        made = self._builder(self._name, self._key.public_key(), ends=DAY).add_extension(
            x509.BasicConstraints(ca=True, path_length=None), critical=True
        )
        self.file = directory / "authority.pem"
        self.file.write_bytes(made.sign(self._key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))

    def _builder(
        self, subject: x509.Name, key: ec.EllipticCurvePublicKey, *, ends: datetime.timedelta
    ) -> x509.CertificateBuilder:
        now = datetime.datetime.now(datetime.UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - 2 * DAY)
            .not_valid_after(now + ends)
        )

    def context(self, host: str, *, ends: datetime.timedelta = DAY) -> ssl.SSLContext:
        """Return what a server of this name shows."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, host)])
        names = x509.SubjectAlternativeName([x509.DNSName(host)])
        made = self._builder(subject, key.public_key(), ends=ends).add_extension(names, critical=False)
        file = self._directory / f"{host}.pem"
        file.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
            + made.sign(self._key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
        )
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(file)
        return context


@contextmanager
def in_front(url: str, context: ssl.SSLContext) -> Iterator[int]:
    """Speak TLS on a port of loopback, and hand all bytes to the server at `url`."""
    there = urlsplit(url)
    target = (there.hostname or "127.0.0.1", there.port or 80)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=_accepted, args=(listener, context, target), daemon=True).start()
        yield listener.getsockname()[1]


def _accepted(listener: socket.socket, context: ssl.SSLContext, target: tuple[str, int]) -> None:
    with suppress(OSError):
        while True:
            connection, _ = listener.accept()
            threading.Thread(target=_relayed, args=(connection, context, target), daemon=True).start()


def _relayed(connection: socket.socket, context: ssl.SSLContext, target: tuple[str, int]) -> None:
    with (
        suppress(OSError),
        closing(connection),
        context.wrap_socket(connection, server_side=True) as tls,
        socket.create_connection(target) as plain,
    ):
        threading.Thread(target=_pumped, args=(plain, tls), daemon=True).start()
        _pumped(tls, plain)


def _pumped(source: socket.socket, sink: socket.socket) -> None:
    with suppress(OSError):
        while piece := source.recv(65536):
            sink.sendall(piece)
        sink.shutdown(socket.SHUT_WR)
