import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from playwright.sync_api import Browser, expect, sync_playwright

from muster.client import calls
from muster.domain.access import Role
from muster.domain.template import Reuse
from tests.browser import viewing
from tests.browser.viewing import View, viewed
from tests.e2e.fork_server import ForkServer
from tests.e2e.site import Site
from tests.outcome import PASSED, pytest_runtest_makereport

__all__ = ["pytest_runtest_makereport"]

if sys.platform != "linux":
    collect_ignore_glob = ["test_*.py"]  # real nodes as processes, looked at through /proc

expect.set_options(timeout=viewing.PATIENCE * 1000)
Open = Callable[..., View]


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    """For this package alone: while it lives, no other event loop can run in this thread."""
    why = viewing.missing()
    if why is not None:
        pytest.skip(why)
    with sync_playwright() as playwright, viewing.launched(playwright) as browser:
        yield browser


@pytest.fixture(scope="package")
def fork_server(browser: Browser) -> Iterator[ForkServer]:
    """After the browser: without one, no server is started in vain."""
    with ForkServer() as fork_server:
        yield fork_server


@pytest.fixture(scope="package")
def site(fork_server: ForkServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """One server with real nodes for all tests that can share it."""
    site = Site(tmp_path_factory.mktemp("site"), fork_server).start()
    step = "muster-agent step 'fetch the image'\n"
    failing = "echo 'E: Unable to locate package nodejs-99'\nexit 100\n"
    site.template("quick", boot_script="true")
    site.template("slow", boot_script=f"{step}sleep 3\n", reuse=Reuse.NEVER)
    site.template("slower", boot_script=f"{step}sleep 8\n", reuse=Reuse.NEVER)
    site.template("hanging", boot_script=f"{step}sleep 1000\n", reuse=Reuse.NEVER)
    site.template("broken", boot_script=failing, rescue_window=0.0)
    site.template("held", boot_script="true")
    site.ask(calls.pause("held"))
    yield site
    site.close()


@pytest.fixture(scope="package")
def tokens(site: Site) -> dict[str, str]:
    made = {
        role: site.client.send(calls.make_token(f"an {role}", role)) for role in (Role.VIEWER, Role.OPERATOR)
    }
    return {role.value: token.secret for role, token in made.items()}


@pytest.fixture
def open_view(browser: Browser, request: pytest.FixtureRequest) -> Iterator[Open]:
    """Tabs that must have been clean if the test passed."""
    with ExitStack() as tabs:
        views: list[View] = []

        def opened(url: str, token: str | None, **looks: Any) -> View:
            views.append(tabs.enter_context(viewed(browser, url, token, **looks)))
            return views[-1]

        yield opened
        if request.node.stash.get(PASSED, False):
            for view in views:
                view.assert_clean()


@pytest.fixture
def view(site: Site, tokens: dict[str, str], open_view: Open) -> View:
    return open_view(site.url, tokens["operator"])
