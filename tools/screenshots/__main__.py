"""`python -m tools.screenshots`: docs/images, made anew. Leaves nothing but the pictures."""

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from playwright.sync_api import Browser, Page, sync_playwright

from muster.config import DataDirectory
from muster.integrations.process.demo_site import Site
from tools.screenshots.contents import Shown, begun, filled
from tools.screenshots.elsewhere import azure, github

ROOT = Path(__file__).parents[2]
IMAGES = ROOT / "docs" / "images"
LARGEST = 200_000
"""Bytes of a picture: they are in the repository, and every clone carries them."""
SETTLE = 1500
"""Milliseconds for bars to come to rest."""
FONTS = """<?xml version="1.0"?><!DOCTYPE fontconfig SYSTEM "fonts.dtd"><fontconfig>
<include ignore_missing="yes">/etc/fonts/fonts.conf</include>
<alias binding="strong"><family>system-ui</family><prefer><family>Inter</family></prefer></alias>
<alias binding="strong"><family>sans-serif</family><prefer><family>Inter</family></prefer></alias>
<alias binding="strong"><family>sans</family><prefer><family>Inter</family></prefer></alias>
<alias binding="strong"><family>monospace</family><prefer><family>JetBrains Mono</family></prefer></alias>
</fontconfig>
"""
"""A plain Debian has one old font; these are taken if they are there (fonts-inter, fonts-jetbrains-mono)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    name: str
    path: str
    wait_for: str
    dark: bool = False
    width: int = 1280
    height: int = 860


def pictures(shown: Shown) -> list[Picture]:
    return [
        Picture(name="overview", path="/", wait_for="[data-testid=verdict]", height=1160),
        Picture(
            name="operation",
            path=f"/operations/{shown.failed}",
            wait_for="[data-testid=diagnosis]",
            dark=True,
        ),
        Picture(name="template", path="/templates/ci-cold", wait_for=".histogram", height=640),
        Picture(name="nodes", path="/nodes", wait_for="[data-testid=node-row]", dark=True, height=560),
        Picture(name="phone", path="/", wait_for="[data-testid=verdict]", width=390, height=844),
    ]


CLUSTERS = Picture(name="clusters", path="/clusters", wait_for="[data-testid=cluster]", height=900)
JOBS = Picture(name="jobs", path="/jobs", wait_for="[data-testid=job-row][data-state=running]", height=640)
WALLBOARD = Picture(name="wallboard", path="/wallboard", wait_for="[data-testid=timeline]", height=720)


def main() -> int:
    browser_path = shutil.which(os.environ.get("MUSTER_BROWSER", "chromium"))
    if browser_path is None:
        print("error: cannot take pictures: there is no Chromium; see `make browser`", file=sys.stderr)
        return 1
    with _browser(browser_path) as browser:
        site = Site.started()
        try:
            print("filling a site: real nodes boot, serve and fail", flush=True)
            shown = filled(site)
            for picture in [*pictures(shown), WALLBOARD]:
                _taken(browser, site, picture)
        finally:
            site.end()
        print("playing clusters on a simulated Azure", flush=True)
        with azure() as elsewhere:
            _taken(browser, elsewhere, CLUSTERS)
        print("playing jobs of a small GitHub of our own", flush=True)
        with github() as elsewhere:
            _taken(browser, elsewhere, JOBS)
    return _too_large()


@contextmanager
def _browser(path: str) -> Iterator[Browser]:
    with tempfile.TemporaryDirectory() as directory, sync_playwright() as playwright:
        fonts = Path(directory) / "fonts.conf"
        fonts.write_text(FONTS)
        yield playwright.chromium.launch(
            executable_path=path,
            args=["--no-sandbox", "--disable-background-networking", "--force-color-profile=srgb"],
            env={**os.environ, "FONTCONFIG_FILE": str(fonts)},
        )


def _taken(browser: Browser, site: Site, picture: Picture) -> None:
    page = browser.new_page(
        viewport={"width": picture.width, "height": picture.height},
        color_scheme="dark" if picture.dark else "light",
        locale="en-GB",
    )
    _sign_in(page, site)
    if picture.path == "/":
        with site.client() as client:
            begun(client)
    page.goto(site.url + picture.path)
    page.wait_for_selector(picture.wait_for)
    page.wait_for_timeout(SETTLE)
    IMAGES.mkdir(exist_ok=True)
    page.screenshot(path=IMAGES / f"{picture.name}.png", animations="disabled")
    page.close()
    print(f"took docs/images/{picture.name}.png", flush=True)


def _sign_in(page: Page, site: Site) -> None:
    page.goto(site.url)
    page.get_by_label("Token").fill(DataDirectory(site.directory).admin_token() or "")
    page.get_by_role("button", name="Sign in").click()
    page.wait_for_selector("[data-connection=live]")


def _too_large() -> int:
    large = [path.name for path in sorted(IMAGES.glob("*.png")) if path.stat().st_size > LARGEST]
    if large:
        print(f"error: too large to keep: {', '.join(large)}; show less of the page", file=sys.stderr)
    return 1 if large else 0


if __name__ == "__main__":
    sys.exit(main())
