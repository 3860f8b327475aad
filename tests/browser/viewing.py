"""A real Chromium, and pages in it that notice what a person behind a strict proxy would.

Owns what holds on every page of every test. The console shows no warning. The page asks only its server. No
name opens a dialog.
"""

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from playwright.sync_api import Browser, ConsoleMessage, Dialog, Locator, Page, Playwright, Request

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "src" / "muster" / "dashboard" / "index.html"
AXE = ROOT / "web" / "node_modules" / "axe-core" / "axe.min.js"
PATIENCE = 60.0
HOW = "install it (apt-get install chromium), or name one: MUSTER_BROWSER=/path/to/chromium"
DESKTOP = (1280, 900)
PHONE = (390, 844)


def program() -> str | None:
    return shutil.which(os.environ.get("MUSTER_BROWSER") or "chromium")


def missing() -> str | None:
    """What keeps these tests from running, and what to do about it."""
    if program() is None:
        return f"the browser tests are skipped: there is no Chromium; {HOW}"
    if not PAGE.exists():
        return "the browser tests are skipped: the page is not built; build it with: make web"
    return None


@contextmanager
def launched(playwright: Playwright) -> Iterator[Browser]:
    # A sandbox inside of one, or under root, doesn't start; the pages are our own.
    browser = playwright.chromium.launch(executable_path=program(), args=["--no-sandbox"])
    try:
        yield browser
    finally:
        browser.close()


def away(words: str) -> bool:
    """What a browser says by itself of a server that is not there."""
    return "net::ERR_" in words


def refused(words: str) -> bool:
    """What a browser says by itself of an answer of 401 or 404."""
    return "Failed to load resource" in words and ("401" in words or "404" in words)


@dataclass
class View:
    """One tab: its page, and what it complained about."""

    page: Page
    url: str
    complaints: list[str] = field(default_factory=list)
    abroad: list[str] = field(default_factory=list)
    forgiven: Callable[[str], bool] = lambda _words: False
    """Complaints that a test provokes: a server that is away, a token that ended."""
    neighbours: tuple[str, ...] = ()
    """Other hosts that a test lets the browser go to: an identity provider."""

    def go(self, path: str = "/") -> Page:
        self.page.goto(self.url + path)
        return self.page

    def by(self, name: str) -> Locator:
        return self.page.get_by_test_id(name)

    def assert_clean(self) -> None:
        assert self.abroad == [], "nothing is asked of anybody else"
        assert [each for each in self.complaints if not self.forgiven(each)] == []

    # --- what it notices --------------------------------------------------------------------------

    def watch(self) -> None:
        self.page.on("console", self._said)
        self.page.on("pageerror", lambda error: self.complaints.append(f"error: {error}"))
        self.page.on("dialog", self._asked)
        self.page.on("request", self._requested)

    def _said(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.complaints.append(f"{message.type}: {message.text} ({message.location['url']})")

    def _asked(self, dialog: Dialog) -> None:
        self.complaints.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    def _requested(self, request: Request) -> None:
        there = urlsplit(request.url)
        if there.scheme not in ("data", "blob") and not request.url.startswith((self.url, *self.neighbours)):
            self.abroad.append(request.url)


@contextmanager
def viewed(
    browser: Browser,
    url: str,
    token: str | None,
    *,
    size: tuple[int, int] = DESKTOP,
    dark: bool = False,
) -> Iterator[View]:
    """A fresh tab, signed in if there is a token."""
    context = browser.new_context(
        viewport={"width": size[0], "height": size[1]}, color_scheme="dark" if dark else "light"
    )
    context.set_default_timeout(PATIENCE * 1000)
    if token is not None:
        context.add_init_script(
            f"sessionStorage.getItem('muster.token') || sessionStorage.setItem('muster.token', '{token}')"
        )
    view = View(page=context.new_page(), url=url)
    view.watch()
    try:
        yield view
    finally:
        context.close()
