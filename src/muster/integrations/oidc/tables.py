"""The settings [oidc] and [oidc.roles]."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from muster.config import values
from muster.config.tables import Table
from muster.domain.errors import InvalidRequest
from muster.integrations.oidc.roles import GRANTED
from muster.ports.sign_in import Lifetimes

SCOPES = ("openid", "profile", "email")
_DEFAULTS = Lifetimes()


@dataclass(frozen=True, slots=True, kw_only=True)
class OidcConfig:
    issuer: str = ""
    """The provider's address, exactly as it names itself. Empty: no sign-in by a provider."""
    client_id: str = ""
    client_secret: str = field(default="", repr=False)
    """Only from the environment. In a file: see `client_secret_file`. None of both: a public client."""
    client_secret_file: Path | None = None
    name: str = ""
    """On the button; empty: the issuer's host."""
    scopes: tuple[str, ...] = SCOPES
    groups_claim: str = "groups"
    """Where the provider puts groups; dots lead into objects: `realm_access.roles`."""
    session_idle: float = _DEFAULTS.idle
    session_max: float = _DEFAULTS.session
    login_max: float = _DEFAULTS.login
    roles: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def configured(self) -> bool:
        return bool(self.issuer)

    @property
    def shown_name(self) -> str:
        return self.name or urlsplit(self.issuer).hostname or self.issuer

    @property
    def lifetimes(self) -> Lifetimes:
        return Lifetimes(idle=self.session_idle, session=self.session_max, login=self.login_max)


def _issuer(name: str, value: object) -> object:
    """Check the issuer. It is compared as it is written, so a slash at its end stays."""
    values.url(name, value)
    text = str(value)
    parts = urlsplit(text)
    if parts.scheme != "https" and parts.hostname not in values.LOOPBACK:
        raise InvalidRequest(name, value, "must be an https address: sign-in over plain HTTP can be read")
    return text


def _together(config: OidcConfig) -> None:
    if not config.configured:
        if config.client_id or config.roles:
            raise InvalidRequest("issuer", "", "must be given: without it, no one signs in by a provider")
        return
    if not config.client_id:
        raise InvalidRequest("client_id", "", "must be given: the provider knows this server by it")
    if config.client_secret and config.client_secret_file is not None:
        raise InvalidRequest("client_secret_file", "…", "and MUSTER_OIDC_CLIENT_SECRET exclude each other")
    if "openid" not in config.scopes:
        raise InvalidRequest("scopes", list(config.scopes), "must have openid")
    if not config.roles:
        rule = 'must give a role to some groups: write [oidc.roles] with e.g. viewer = ["*"]'
        raise InvalidRequest("roles", {}, rule)
    for role in config.roles:
        if role not in GRANTED:
            raise InvalidRequest(f"roles.{role}", "…", f"must be one of {', '.join(GRANTED)}")
    if config.session_idle > config.session_max:
        raise InvalidRequest("session_idle", config.session_idle, "must not be above session_max")


SETTINGS = Table(
    kind=OidcConfig,
    keys={
        "issuer": _issuer,
        "client_secret": values.secret,
        "roles": values.texts,
    },
    environment=("issuer", "client_id"),
    secret=("client_secret",),
    maps=("roles",),
    private=("client_secret_file",),
    check=_together,
)
