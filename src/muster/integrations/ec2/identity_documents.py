"""Signed identity documents: CMS signed data, as EC2's metadata service gives it, checked against one key.

Pure. Reads just enough of BER (AWS writes lengths that end by a mark) to find the one signer's signature and
what it covers. Certificates inside the message are ignored: the trusted ones are configured, never sent.
"""

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256
from hmac import compare_digest

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from cryptography.hazmat.primitives.hashes import SHA256

_SEQUENCE, _SET, _OCTETS, _OID = 0x30, 0x31, 0x04, 0x06
_TAGGED_0 = 0xA0
_CONSTRUCTED = 0x20
_SIGNED_DATA = bytes.fromhex("2a864886f70d010702")
_DATA = bytes.fromhex("2a864886f70d010701")
_MESSAGE_DIGEST = bytes.fromhex("2a864886f70d010904")
_SHA256 = bytes.fromhex("608648016503040201")
_DEPTH = 16
KEY_LEAST = 2048


class Forged(Exception):
    """It isn't what it claims to be, or nothing that we know. Says what is wrong."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    instance_id: str
    account: str
    region: str
    started_at: float


def key_of(pem: str) -> RSAPublicKey:
    """Read the key of a certificate. Raises ValueError unless it is an RSA key that is long enough."""
    key = x509.load_pem_x509_certificate(pem.encode()).public_key()
    if not isinstance(key, RSAPublicKey) or key.key_size < KEY_LEAST:
        raise ValueError(f"it must be the certificate of an RSA key of at least {KEY_LEAST} bits")
    return key


def read(text: bytes) -> Document:
    """Read an identity document. Raises Forged for anything else."""
    try:
        said = json.loads(text)
        return Document(
            instance_id=_word(said["instanceId"]),
            account=_word(said["accountId"]),
            region=_word(said["region"]),
            started_at=datetime.fromisoformat(_word(said["pendingTime"])).astimezone(UTC).timestamp(),
        )
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError) as error:
        raise Forged(f"it is no identity document ({error!r})") from error


def claimed_region(message: bytes) -> str:
    """Return the region whose key to check with. It is not proven before that check."""
    return read(_parts(message).content).region


def verify(message: bytes, key: RSAPublicKey) -> Document:
    """Check the signature. Raises Forged unless the key's owner signed it."""
    parts = _parts(message)
    try:
        key.verify(parts.signature, parts.covered, PKCS1v15(), SHA256())
    except InvalidSignature as error:
        raise Forged("its signature is not AWS's") from error
    return read(parts.content)


def _word(value: object) -> str:
    if not isinstance(value, str) or not value:
        raise ValueError(value)
    return value


# --- the envelope -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class _Element:
    tag: int
    body: bytes
    children: "tuple[_Element, ...]"
    raw: bytes
    definite: bool

    def child(self, index: int, tag: int) -> "_Element":
        if index >= len(self.children) or self.children[index].tag != tag:
            raise Forged("its envelope is not of the form that AWS uses")
        return self.children[index]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Parts:
    content: bytes
    covered: bytes
    """What the signature is over."""
    signature: bytes


def _parts(message: bytes) -> _Parts:
    outer, end = _element(message, 0, 0)
    if end != len(message) or outer.tag != _SEQUENCE or outer.child(0, _OID).body != _SIGNED_DATA:
        raise Forged("it is no signed message")
    signed = outer.child(1, _TAGGED_0).child(0, _SEQUENCE)
    wrapped = signed.child(2, _SEQUENCE)
    if wrapped.child(0, _OID).body != _DATA:
        raise Forged("it signs something else than data")
    content = _octets(wrapped.child(1, _TAGGED_0).children[:1])
    signers = signed.children[-1]
    if signers.tag != _SET or len(signers.children) != 1:
        raise Forged("it must have one signer")
    return _signed(signers.child(0, _SEQUENCE), content)


def _signed(signer: _Element, content: bytes) -> _Parts:
    if signer.child(2, _SEQUENCE).child(0, _OID).body != _SHA256:
        raise Forged("it is not signed with SHA-256")
    if len(signer.children) > 3 and signer.children[3].tag == _TAGGED_0:  # noqa: PLR2004 — attributes
        attributes = signer.children[3]
        if not attributes.definite:
            raise Forged("its attributes are not in the form that is signed")
        if not compare_digest(_digest_in(attributes), sha256(content).digest()):
            raise Forged("its content is not what was signed")
        # They are signed as the set that they are, not under the tag that they are sent with.
        covered = bytes([_SET]) + attributes.raw[1:]
        return _Parts(content=content, covered=covered, signature=signer.child(5, _OCTETS).body)
    return _Parts(content=content, covered=content, signature=signer.child(4, _OCTETS).body)


def _digest_in(attributes: _Element) -> bytes:
    found = [
        attribute.child(1, _SET).child(0, _OCTETS).body
        for attribute in attributes.children
        if attribute.child(0, _OID).body == _MESSAGE_DIGEST
    ]
    if len(found) != 1:
        raise Forged("its attributes must name one digest")
    return found[0]


def _octets(elements: tuple[_Element, ...]) -> bytes:
    """Return a string of bytes, given in one piece or in several."""
    return b"".join(
        each.body if each.tag == _OCTETS else _octets(each.children)
        for each in elements
        if each.tag in (_OCTETS, _OCTETS | _CONSTRUCTED)
    )


def _element(data: bytes, at: int, depth: int) -> tuple[_Element, int]:
    """Return the element that begins there, and where it ends."""
    try:
        tag, length, body_at = data[at], data[at + 1], at + 2
        if length == 0x80:  # noqa: PLR2004 — until its end is marked
            return _marked(data, at, tag, depth)
        if length > 0x80:  # noqa: PLR2004 — so many bytes hold the length
            size = length - 0x80
            length, body_at = int.from_bytes(data[body_at : body_at + size], "big"), body_at + size
    except IndexError as error:
        raise Forged("its envelope is cut off") from error
    end = body_at + length
    if end > len(data) or depth > _DEPTH:
        raise Forged("its envelope is cut off, or too deep")
    children = _children(data[:end], body_at, depth) if tag & _CONSTRUCTED else ()
    found = _Element(tag=tag, body=data[body_at:end], children=children, raw=data[at:end], definite=True)
    return found, end


def _children(data: bytes, at: int, depth: int) -> tuple[_Element, ...]:
    found: list[_Element] = []
    while at < len(data):
        child, at = _element(data, at, depth + 1)
        found.append(child)
    return tuple(found)


def _marked(data: bytes, at: int, tag: int, depth: int) -> tuple[_Element, int]:
    if not tag & _CONSTRUCTED or depth > _DEPTH:
        raise Forged("its envelope is not well-formed")
    found: list[_Element] = []
    here = at + 2
    while data[here : here + 2] != b"\0\0":
        child, here = _element(data, here, depth + 1)
        found.append(child)
    raw = data[at : here + 2]
    element = _Element(tag=tag, body=data[at + 2 : here], children=tuple(found), raw=raw, definite=False)
    return element, here + 2
