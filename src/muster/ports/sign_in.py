"""Sign people in by an identity provider. The port knows no protocol beyond a redirect and an answer."""

from dataclasses import dataclass, field
from typing import Protocol

from muster.domain.access import Claims, Role
from muster.domain.errors import Forbidden


@dataclass(frozen=True, slots=True, kw_only=True)
class Challenge:
    """What ties an answer to the browser that asked. All three are secrets of that browser and the server."""

    state: str = field(repr=False)
    """Comes back in the answer's address."""
    nonce: str = field(repr=False)
    """Comes back inside what the provider signs."""
    verifier: str = field(repr=False)
    """Proves to the provider who asked: it saw only the verifier's hash (PKCE)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Person:
    name: str
    """How Muster names the person: an e-mail address, mostly."""
    role: Role
    """What the operator's rules give to the person's groups."""
    claims: Claims


@dataclass(frozen=True, slots=True, kw_only=True)
class Lifetimes:
    """Seconds after which a person has to sign in again."""

    idle: float = 8 * 3600.0
    """Of a session without requests."""
    session: float = 24 * 3600.0
    """Of any session. Groups are read when a person signs in, so this bounds how old they may be."""
    login: float = 7 * 86400.0
    """Of a login with `muster login`, from the sign-in on the page on."""


class Uncovered(Forbidden):
    """The person is who they say, and no rule gives them a role."""

    def __init__(self, person: str, message: str) -> None:
        super().__init__(message)
        self.person = person


class SignInProvider(Protocol):
    @property
    def name(self) -> str:
        """How the page calls the provider: "Sign in with NAME"."""
        ...

    @property
    def home(self) -> str:
        """The address at which browsers reach the server. The provider sends people back there alone."""
        ...

    @property
    def lifetimes(self) -> Lifetimes: ...

    def role(self, claims: Claims) -> Role | None:
        """Return what the operator's rules give to a person with these claims now."""
        ...

    async def address(self, challenge: Challenge) -> str:
        """Return where to send the browser. Raises NotYet if the provider is not available."""
        ...

    async def person(self, code: str, challenge: Challenge, *, issuer: str | None) -> Person:
        """Exchange the code of an answer for the person who signed in. `issuer`: what the answer names.

        Raises Unproven for an answer that proves nothing, Uncovered for a person that no rule covers, and
        NotYet if the provider is not available.
        """
        ...
