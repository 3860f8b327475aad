"""Signing in by an identity provider that is not ours, in a real browser and from a terminal."""

import http.server
import os
import re
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from playwright.sync_api import Page, expect

from muster.client import calls
from tests.browser import identity_provider
from tests.browser.conftest import Open
from tests.browser.identity_provider import FONTS, IdentityProvider, settings
from tests.browser.test_looks import RUN, WIDER
from tests.browser.viewing import AXE, PHONE, View, away, refused
from tests.cli.terminal import MUSTER
from tests.e2e.fork_server import ForkServer
from tests.e2e.site import BRISK, Site, until

ACCOUNTS = {
    "ada": {"email": "ada@example.com", "email_verified": True, "groups": ["platform", "others"]},
    "eve": {"email": "eve@example.com", "email_verified": True, "groups": ["guests"]},
}


@pytest.fixture(scope="module")
def provider() -> Iterator[IdentityProvider]:
    why = identity_provider.missing()
    if why is not None:
        pytest.skip(why)
    provider = IdentityProvider(ACCOUNTS)
    yield provider
    provider.stop()


@pytest.fixture(scope="module")
def server(
    fork_server: ForkServer, provider: IdentityProvider, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Site]:
    directory = tmp_path_factory.mktemp("signing")
    site = Site(directory, fork_server, config=f"{BRISK}{settings(provider, directory)}")
    provider.start(f"{site.url}/api/v1/sign-in/callback")
    site.start()
    site.template("quick", boot_script="true")
    yield site
    site.close()


class Person:
    """A browser of its own, and the person in front of it."""

    def __init__(self, view: View, provider: IdentityProvider) -> None:
        self.view = view
        view.neighbours = (provider.issuer, FONTS)
        view.forgiven = lambda words: refused(words) or away(words)
        view.page.route(f"{FONTS}**", lambda route: route.fulfill(body="", content_type="text/css"))

    @property
    def page(self) -> Page:
        return self.view.page

    def signs_in(self, path: str = "/", login: str = "ada") -> None:
        """Go to a page, to the provider, type a login there, agree, and come back."""
        self.view.go(path)
        self.page.get_by_role("link", name="Sign in with Example Login").click()
        self.page.get_by_placeholder("Enter any login").fill(login)
        self.page.get_by_placeholder("and password").fill("anything")
        self.page.get_by_role("button", name="Sign-in").click()
        self.page.get_by_role("button", name="Continue").click()
        self.page.wait_for_url(re.compile(f"^{re.escape(self.view.url)}/"))

    def is_on(self, path: str) -> None:
        expect(self.view.by("connection")).to_have_attribute("data-connection", "live")
        assert self.page.url == self.view.url + path

    def session(self) -> tuple[str, str]:
        cookies = [(each["name"], each["value"]) for each in self.page.context.cookies()]
        (found,) = [each for each in cookies if each[0].startswith("muster-session")]
        return found

    def signs_out(self) -> None:
        self.page.locator("details.account > summary").click()
        self.page.get_by_role("button", name="Sign out").click()
        expect(self.view.by("sign-in")).to_be_visible()


@pytest.fixture
def person(server: Site, provider: IdentityProvider, open_view: Open) -> Person:
    return Person(open_view(server.url, None), provider)


def test_a_person_signs_in_comes_back_to_the_same_place_and_signs_out(person: Person, server: Site) -> None:
    person.signs_in("/nodes?state=idle")
    person.is_on("/nodes?state=idle")
    page = person.page
    expect(page.locator(".account-name")).to_have_text("ada@example.com")
    assert page.evaluate("document.cookie") == "", "no script can read the session"
    page.reload()
    person.is_on("/nodes?state=idle")
    other = page.context.new_page()
    other.goto(f"{server.url}/templates")
    expect(other.get_by_role("link", name="quick")).to_be_visible()
    other.close()
    stolen = dict([person.session()])
    with httpx.Client(base_url=server.url, cookies=stolen, trust_env=False) as thief:
        assert thief.get("/api/v1/whoami").json()["name"] == "ada@example.com"
        person.signs_out()
        assert thief.get("/api/v1/whoami").status_code == 401, "a stolen cookie is worth nothing after it"
    page.reload()
    expect(person.view.by("sign-in")).to_be_visible()
    acts = [each.name for each in server.feed() if each.actor.startswith("ada@example.com")]
    assert acts[-2:] == ["signed_in", "signed_out"]


def test_a_session_that_is_ended_meanwhile_leads_to_sign_in_and_back(person: Person, server: Site) -> None:
    person.signs_in("/templates/quick")
    person.is_on("/templates/quick")
    with httpx.Client(base_url=server.url, cookies=dict([person.session()]), trust_env=False) as http:
        token_id = http.get("/api/v1/whoami").json()["token_id"]
    server.client.send(calls.revoke_token(token_id))
    expect(person.view.by("sign-in")).to_contain_text("your session was ended")
    person.page.get_by_role("link", name="Sign in with Example Login").click()
    person.is_on("/templates/quick")  # the provider remembers who it is


def test_who_may_not_sign_in_is_told_why(person: Person) -> None:
    person.signs_in("/nodes", login="eve")
    expect(person.view.by("sign-in")).to_contain_text("no rule of [oidc.roles] covers this person")
    expect(person.view.by("sign-in")).to_contain_text("guests")
    assert person.page.url == f"{person.view.url}/nodes"


def test_a_terminal_is_logged_in_by_its_code(person: Person, server: Site, tmp_path: Path) -> None:
    home = {"HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path)}
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("MUSTER_", "XDG_"))}
    asked = subprocess.Popen(
        [*MUSTER, "login", server.url, "--name", "prod"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**kept, **home},
    )
    try:
        assert asked.stderr is not None
        address = asked.stderr.readline().split()[1]
        code = address.partition("code=")[2]
        person.signs_in(address.removeprefix(server.url))
        expect(person.view.by("device")).to_contain_text(code)
        expect(person.view.by("device")).to_contain_text("as ada@example.com (operator)")
        person.page.get_by_role("button", name="Confirm").click()
        expect(person.page.get_by_role("status")).to_contain_text("The terminal is signed in")
        out, err = asked.communicate(timeout=60)
    finally:
        asked.kill()
    assert asked.returncode == 0, err
    assert "as ada@example.com on " in out and "(operator) for 6d" in out
    words = subprocess.run(
        [*MUSTER, "templates", "-o", "json"], capture_output=True, text=True, env={**kept, **home}, check=True
    )
    assert "quick" in words.stdout
    (login,) = [each for each in server.client.send(calls.tokens()) if each.kind == "login"]
    server.client.send(calls.revoke_token(login.id))
    over = subprocess.run(
        [*MUSTER, "nodes"], capture_output=True, text=True, env={**kept, **home}, check=False
    )
    assert over.returncode == 2 and "this login was ended; run `muster login`" in over.stderr


@pytest.mark.parametrize("looks", [{}, {"dark": True}, {"size": PHONE}], ids=["light", "dark", "phone"])
def test_the_pages_of_sign_in_have_no_serious_barrier(
    server: Site, provider: IdentityProvider, open_view: Open, looks: dict[str, Any]
) -> None:
    axe = AXE.read_text(encoding="utf-8")
    person = Person(open_view(server.url, None, **looks), provider)
    page = person.view.go("/device")
    expect(page.get_by_role("link", name="Sign in with Example Login")).to_be_visible()
    page.evaluate(axe)
    assert (page.evaluate(RUN), page.evaluate(WIDER)) == ([], 0)
    with httpx.Client(base_url=server.url, trust_env=False) as http:
        code = http.post("/api/v1/device", json={"machine": "m" * 63}).json()["user_code"]
    person.signs_in("/device")
    page.get_by_label("Code").fill(code.lower())
    page.get_by_role("button", name="Continue").click()
    expect(page.get_by_role("button", name="Confirm")).to_be_visible()
    page.evaluate(axe)
    assert (page.evaluate(RUN), page.evaluate(WIDER)) == ([], 0)
    page.get_by_role("button", name="Deny").click()
    expect(page.get_by_role("status")).to_contain_text("was refused")


EVIL = """\
<form method="post" action="{url}/api/v1/pause" enctype="text/plain"><input name="a"></form>
<script>
  const asked = ["include", "same-origin"].map((credentials) =>
    fetch("{url}/api/v1/pause", {{ method: "POST", mode: "no-cors", credentials }}).catch(() => 0));
  Promise.all(asked).then(() => document.forms[0].submit());
</script>
"""


@contextmanager
def another_site(body: str) -> Iterator[str]:
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(body.encode())

        def log_message(self, *_words: object) -> None: ...

    listening = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=listening.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{listening.server_port}/"
    finally:
        listening.shutdown()
        listening.server_close()


def test_another_site_cannot_use_the_session(person: Person, server: Site) -> None:
    """The worst case: the same host, so that the browser sends the cookie along; only the port differs."""
    person.signs_in("/")
    person.is_on("/")
    with another_site(EVIL.format(url=server.url)) as evil:
        person.view.neighbours = (*person.view.neighbours, evil)
        person.view.forgiven = lambda words: "Failed to load resource" in words
        with person.page.expect_navigation(url=f"{server.url}/api/v1/pause"):
            person.page.goto(evil)
        expect(person.page.locator("body")).to_contain_text("cannot")
    assert any("403" in words for words in person.view.complaints), "the cookie came, and did not count"
    assert [each for each in server.feed() if each.name == "paused"] == []
    person.view.go("/templates/quick")
    person.page.get_by_role("button", name=re.compile("^Pause")).first.click()
    person.page.get_by_role("dialog").get_by_role("button", name=re.compile("^Pause")).click()
    until(lambda: [each for each in server.feed() if each.name == "paused"], "the page's own pause")


def test_new_keys_of_the_provider_and_its_absence(
    person: Person, server: Site, provider: IdentityProvider, open_view: Open
) -> None:
    person.signs_in("/nodes")
    provider.stop()
    provider.start()
    rotated = Person(open_view(server.url, None), provider)
    rotated.signs_in("/nodes")
    rotated.is_on("/nodes")
    provider.stop()
    try:
        person.page.reload()
        person.is_on("/nodes")  # a person who is signed in stays so
        server.restart()  # it forgets how the provider described itself
        late = Person(open_view(server.url, None), provider)
        late.view.go("/nodes")
        late.page.get_by_role("link", name="Sign in with Example Login").click()
        expect(late.view.by("sign-in")).to_contain_text(f"{provider.issuer} is not available")
        assert late.page.url == f"{server.url}/nodes"
        person.is_on("/nodes")
    finally:
        provider.start()
