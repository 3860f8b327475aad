"""Compose the adapter from the settings. Without [oidc] there is none."""

from muster.config.values import read_secret
from muster.domain.errors import InvalidRequest
from muster.integration import Parts, Site
from muster.integrations.oidc.tables import OidcConfig


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
    return read_secret("client_secret_file", config.client_secret_file)
