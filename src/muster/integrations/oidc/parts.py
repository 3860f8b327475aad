"""Compose the adapter from the settings. Without [oidc] there is none."""

from pathlib import Path

from muster.domain.errors import InvalidRequest
from muster.integration import Parts, Site
from muster.integrations.oidc.tables import OidcConfig

SECRET_MOST = 4096


def connect(site: Site) -> Parts:
    """Return the sign-in of this server. Raises InvalidRequest for settings that can't be used."""
    config: OidcConfig = site.tables["oidc"]
    if not config.configured:
        return Parts()
    try:
        from muster.integrations.oidc.discovery import new_http  # noqa: PLC0415 — joserfc is an extra
        from muster.integrations.oidc.provider import OidcProvider  # noqa: PLC0415 — likewise
    except ImportError as error:
        rule = "needs the library joserfc: pip install 'muster-compute[oidc]'"
        raise InvalidRequest("oidc", config.issuer, rule) from error
    provider = OidcProvider(
        new_http(), site.clock, config, home=site.urls[0].rstrip("/"), secret=client_secret(config)
    )
    return Parts(sign_in=provider, close=provider.close)


def client_secret(config: OidcConfig) -> str:
    """Return the client's secret. Raises InvalidRequest for a file that can't be used; never shows it."""
    if config.client_secret_file is None:
        return config.client_secret
    return _read(config.client_secret_file)


def _read(path: Path) -> str:
    try:
        with path.open(encoding="ascii") as file:
            text = file.read(SECRET_MOST).strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not plain text"
        rule = f"must be a file that can be read: {reason}"
        raise InvalidRequest("client_secret_file", str(path), rule) from error
    if not text:
        raise InvalidRequest("client_secret_file", str(path), "must not be empty")
    return text
