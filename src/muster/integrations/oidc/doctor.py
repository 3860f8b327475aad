"""Check [oidc] for `muster doctor`: the provider's discovery document, the secret, and the public address."""

import asyncio
from collections.abc import Iterator
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from muster.config.values import LOOPBACK
from muster.domain.errors import MusterError
from muster.integration import Check

if TYPE_CHECKING:
    from muster.config import Config
    from muster.integrations.oidc.tables import OidcConfig

SUBJECT = "oidc"


def checks(config: "Config") -> Iterator[Check]:
    settings: OidcConfig = config.tables[SUBJECT]
    if not settings.configured:
        return
    try:
        from muster.integrations.oidc.parts import client_secret

        client_secret(settings)
        yield asyncio.run(_asked(settings))
    except ImportError:
        yield Check.failed(SUBJECT, "[oidc] needs the library joserfc", "pip install 'muster-compute[oidc]'")
    except MusterError as error:
        yield Check.failed(SUBJECT, str(error))
    yield _public(config)


async def _asked(settings: "OidcConfig") -> Check:
    from muster.integrations.oidc.discovery import Discovery, new_http
    from muster.system import SystemClock

    async with new_http() as http:
        discovery = Discovery(http, SystemClock(), issuer=settings.issuer)
        try:
            await discovery.metadata()
            keys = len((await discovery.keys()).keys)
        except MusterError as error:
            advice = "check `issuer`, and that this machine reaches it; tokens and sessions work meanwhile"
            return Check.failed(SUBJECT, str(error), advice)
    words = f"{settings.issuer} describes itself and has {keys} keys; roles: {', '.join(settings.roles)}"
    return Check.ok(SUBJECT, words)


def _public(config: "Config") -> Check:
    """Check the address to which the provider sends people back."""
    public = next(iter(config.server.public_url), None)
    parts = urlsplit(public or "")
    if public is None:
        words = "server.public_url is not set: people can sign in on this machine alone"
        advice = "set server.public_url to the https address that browsers use"
    elif parts.scheme != "https" and parts.hostname not in LOOPBACK:
        words = f"{public} is plain HTTP: the session's cookie can be read on its way"
        advice = "put a proxy that speaks TLS in front, and set server.public_url to its https address"
    else:
        words = f"register this redirect address at the provider: {public}/api/v1/sign-in/callback"
        return Check.ok(SUBJECT, words)
    return Check.warning(SUBJECT, words, advice)
