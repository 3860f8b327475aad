"""Who may use the API: roles, and tokens that carry one. The secret itself is never stored, only its hash.

A session of the page is a token too: one that a browser keeps in a cookie, and that idleness ends.
"""

import hashlib
import hmac
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address

from muster.domain import checks
from muster.domain.errors import Forbidden, InvalidRequest


class Role(StrEnum):
    VIEWER = "viewer"
    """Sees everything."""
    OPERATOR = "operator"
    """Also provisions, runs, releases, cancels, drains, extends, pauses."""
    ADMIN = "admin"
    """Also applies templates and limits, and makes tokens."""
    ENROL = "enrol"
    """Beside the others: enrols apps as nodes of one template, and does nothing else."""


_RANK = {Role.VIEWER: 1, Role.OPERATOR: 2, Role.ADMIN: 3}


def may(held: Role, needed: Role) -> bool:
    if Role.ENROL in (held, needed):
        return held is needed
    return _RANK[held] >= _RANK[needed]


class TokenKind(StrEnum):
    TOKEN = "token"  # noqa: S105 — a word
    """An admin made it, for a program or a person."""
    SESSION = "session"
    """A person signed in on the page. It counts in a cookie alone."""
    LOGIN = "login"
    """A person signed in with `muster login`."""


class Settlement(StrEnum):
    """How a person answered a terminal that asked to be signed in."""

    CONFIRMED = "confirmed"
    DENIED = "denied"


ENDED_KEPT = 7 * 86400.0
"""Seconds for which an ended session or login is still listed."""
_ELLIPSIS = "…"
_PROOF_MOST = 512


@dataclass(frozen=True, slots=True, kw_only=True)
class Claims:
    """What an identity provider says of a person, as far as rules read it."""

    groups: tuple[str, ...] = ()
    email: str = ""
    """Empty unless the provider has verified it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiToken:
    id: str
    name: str
    role: Role
    created_at: float
    expires_at: float | None = None
    revoked_at: float | None = None
    template: str | None = None
    """What an enrolment token is good for."""
    kind: TokenKind = TokenKind.TOKEN
    idle_timeout: float | None = None
    """Seconds without a request after which it ends; None: idleness doesn't end it."""
    seen_at: float | None = None
    """When a request last showed it, to the minute. Kept only if idleness ends it."""
    claims: Claims | None = None
    """Of the person who signed in. Rules give them a role at each request; `role` is that of sign-in."""

    def __post_init__(self) -> None:
        checks.text("name", self.name, longest=checks.NAME_MAX)
        if self.role is not Role.ENROL:
            if self.template is not None:
                raise InvalidRequest("template", self.template, f"must be left out for the role {self.role}")
        elif self.template is None:
            raise InvalidRequest("template", None, "must name the template that apps enrol for")
        else:
            checks.name("template", self.template)

    @property
    def actor(self) -> str:
        """Return who holds the token, as events name them. People make up names, so the id follows."""
        return f"{self.name} ({self.id})"

    def valid(self, *, now: float) -> bool:
        return self.revoked_at is None and not self.over(now=now) and not self.idle(now=now)

    def over(self, *, now: float) -> bool:
        return self.expires_at is not None and now >= self.expires_at

    def idle(self, *, now: float) -> bool:
        """Return whether it was not used for so long that it has ended."""
        if self.idle_timeout is None:
            return False
        return now >= (self.created_at if self.seen_at is None else self.seen_at) + self.idle_timeout


def named_after(person: str, machine: str = "") -> str:
    """Return the name of a person's session or login, no longer than a name may be."""
    name = f"{person} on {machine}" if machine else person
    return name if len(name) <= checks.NAME_MAX else name[: checks.NAME_MAX - 1] + _ELLIPSIS


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceRequest:
    """A terminal that asks a person to sign it in (RFC 8628). The person confirms `user_code` on the page.

    The terminal holds a secret, of which the store has the hash. Once confirmed, that secret is the token.
    """

    user_code: str
    machine: str
    created_at: float
    expires_at: float
    settled: Settlement | None = None
    address: str = ""
    """Where it was asked for: the other end of the connection, so a proxy's if there is one."""

    def __post_init__(self) -> None:
        checks.text("machine", self.machine, longest=checks.NAME_MAX)

    def pending(self, *, now: float) -> bool:
        return self.settled is None and now < self.expires_at


def displaced(
    waiting: Sequence[DeviceRequest], request: DeviceRequest, *, most: int
) -> Sequence[DeviceRequest]:
    """Return who must make room, so that `most` wait together with a new request.

    Each time it is the oldest one of the network that asks most. A site's network counts first, and then the
    network of one caller in it. So a flood from one site displaces itself alone, a wider one also others.
    """
    left = sorted(waiting, key=lambda each: each.created_at)
    networks = {each.user_code: _networks(each.address) for each in (*left, request)}
    gone = []
    while left and len(left) >= most:
        asked = Counter(network for each in (*left, request) for network in set(networks[each.user_code]))
        # The first of equals: the oldest.
        goes = max(left, key=lambda each: tuple(asked[network] for network in networks[each.user_code]))
        left.remove(goes)
        gone.append(goes)
    return gone


def _networks(address: str) -> tuple[str, str]:
    """Return what one site may have for itself, then what one caller may: 48 and 64 bits of an IPv6 address.

    An IPv4 address is both.
    """
    try:
        known = ip_address(address.partition("%")[0])
    except ValueError:
        return address, address
    if isinstance(known, IPv6Address) and known.ipv4_mapped is None:
        site, caller = (str(IPv6Network((known, bits), strict=False)) for bits in (48, 64))
        return site, caller
    alone = str(known if isinstance(known, IPv4Address) else known.ipv4_mapped)
    return alone, alone


def hashed(secret: str) -> str:
    """Return the hash of a secret, for comparison. Secrets are long and random, so no salt is needed."""
    return hashlib.sha256(secret.encode()).hexdigest()


def read_proof(proof: str, provider: str) -> tuple[str, str]:
    """Return machine and secret of a proof `provider:machine:secret`. Raises Forbidden for another form."""
    found = proof.split(":") if len(proof) <= _PROOF_MOST else []
    if len(found) != len(("provider", "machine", "secret")) or found[0] != provider:
        form = f"{provider}:<machine>:<secret>"
        raise Forbidden(f"cannot accept the proof: it is not of the form {form}")
    return found[1], found[2]


def check_secret(secret: str, sha256: str) -> None:
    """Compare a machine's secret with the stored hash, in constant time. Raises Forbidden."""
    shown = hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()
    if not hmac.compare_digest(shown, sha256):
        raise Forbidden("cannot accept the proof: it doesn't show this machine's secret")
