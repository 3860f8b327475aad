"""A server with an identity provider that a test can spoil, and browsers that a test drives step by step."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import httpx

from fakes.oidc import HostileIssuer
from fakes.oidc.issuer import ISSUER
from muster.api.access import Authenticator
from muster.integrations.oidc.discovery import new_http
from muster.integrations.oidc.provider import OidcProvider
from muster.integrations.oidc.tables import OidcConfig
from muster.system import SystemClock
from tests.api.site import Site, opened

ROOT = "/api/v1"
CONFIG = OidcConfig(
    issuer=ISSUER,
    client_id="muster",
    name="Example Login",
    roles={"operator": ("platform",), "admin": ("leads",)},
)


class Clock(SystemClock):
    """The real one, and ahead of it by what a test adds."""

    ahead = 0.0

    def now(self) -> float:
        return super().now() + self.ahead


class SignIn:
    """A server with an identity provider, and browsers that a test drives step by step."""

    def __init__(self, site: Site, issuer: HostileIssuer, clock: Clock) -> None:
        self.site = site
        self.issuer = issuer
        self.clock = clock

    def browser(self) -> httpx.AsyncClient:
        """A browser on the page: it keeps cookies and marks its requests as the page's own."""
        client = self.site.http("")
        client.headers["Sec-Fetch-Site"] = "same-origin"
        return client

    async def begun(self, browser: httpx.AsyncClient, to: str = "/nodes?state=idle") -> dict[str, str]:
        """Go to the provider; its answer's parameters."""
        sent = await browser.get(f"{ROOT}/sign-in/start", params={"to": to})
        assert sent.status_code == 303, sent.text
        return self.issuer.authorise(sent.headers["location"])

    async def answered(self, browser: httpx.AsyncClient, answer: dict[str, str]) -> httpx.Response:
        return await browser.get(f"{ROOT}/sign-in/callback", params=answer)

    async def signed_in(self) -> httpx.AsyncClient:
        browser = self.browser()
        done = await self.answered(browser, await self.begun(browser))
        assert (done.status_code, done.headers["location"]) == (303, "/nodes?state=idle"), done.text
        offered = (await browser.get(f"{ROOT}/sign-in")).json()
        assert offered["signed_in"], offered["notice"]
        return browser

    async def notice(self, browser: httpx.AsyncClient) -> str:
        """Why the page says that no person is signed in; it says so once."""
        offered = (await browser.get(f"{ROOT}/sign-in")).json()
        assert offered["signed_in"] is False and offered["name"] == "Example Login"
        assert (await browser.get(f"{ROOT}/sign-in")).json()["notice"] == ""
        return str(offered["notice"])


@asynccontextmanager
async def signing(
    data: Path, *, home: str | None = None, config: OidcConfig = CONFIG
) -> AsyncIterator[SignIn]:
    """Start the server. `home`: where browsers reach it, if not at its own address."""
    clock = Clock()
    issuer = HostileIssuer(clock.now)
    async with opened(
        data, sign_in=lambda url: OidcProvider(new_http(issuer), clock, config, home=home or url)
    ) as site:
        context = site.api.context
        assert context.sign_in is not None
        context.sign_in._clock = clock
        authenticator = Authenticator(
            site.ports.access, context.plane.enrolment, clock, sign_in=context.sign_in.provider
        )
        ports = replace(context.ports, clock=clock)
        site.api.application.context = replace(context, authenticator=authenticator, ports=ports)
        yield SignIn(site, issuer, clock)
