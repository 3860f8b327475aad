"""The small GitHub over HTTP on a free loopback port, with its runner package and its issuer."""

import gzip
import hashlib
import io
import json
import socket
import tarfile
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import resources
from typing import Any

from fakes.github.issuer import Issuer
from muster_simulation.github.exchange import Lost
from muster_simulation.github.routes import answer
from muster_simulation.github.state import GitHubState


class FakeGitHub:
    """Serves from `start` to `stop`. Its state is `world`; nothing is written anywhere."""

    def __init__(self) -> None:
        self.world = GitHubState(time.time)
        self.archive, self.sha256 = packed()
        self._http = _Server(("127.0.0.1", 0), _Handler)
        self._http.fake = self
        self.url = f"http://127.0.0.1:{self._http.server_address[1]}"
        self.world.url = self.url
        self.world.sets.window = POLL_WINDOW
        self._issuer: Issuer | None = None
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.05,), daemon=True)

    @property
    def issuer(self) -> Issuer:
        if self._issuer is None:
            self._issuer = Issuer(time.time, url=f"{self.url}/_oidc")
        return self._issuer

    @property
    def package_url(self) -> str:
        return f"{self.url}/_packages/actions-runner-{{os}}-{{arch}}-{{version}}.tar.gz"

    def settings(self) -> str:
        """Return a server's [github] section for this one, apart from its credentials."""
        lines = {
            "url": self.url,
            "api_url": self.url,
            "runner_version": VERSION,
            "runner_sha256": self.sha256,
            "runner_url": self.package_url,
            "issuer": f"{self.url}/_oidc",
        }
        return "[github]\n" + "".join(f"{name} = {json.dumps(value)}\n" for name, value in lines.items())

    def start(self) -> "FakeGitHub":
        self._thread.start()
        return self

    def stop(self) -> None:
        self._http.shutdown()
        self._thread.join()
        self._http.server_close()

    def answer(
        self, method: str, target: str, headers: dict[str, str], body: bytes
    ) -> tuple[int, Any, bytes]:
        if target.startswith("/_packages/"):
            return 200, {}, self.archive
        if target.startswith("/_oidc/"):
            found = self.issuer.answer(target, headers.get("authorization", ""))
            return (200 if found else 404), {}, json.dumps(found).encode()
        said = answer(self.world, method, target, headers, body)
        return said.status, said.headers, said.body


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 128
    fake: FakeGitHub

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore the broken connection of a killed client."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: _Server

    def log_message(self, *_: Any) -> None:
        """Log nothing; the state keeps what was asked."""

    def _serve(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        headers = {name.lower(): value for name, value in self.headers.items()}
        try:
            status, more, content = self.server.fake.answer(self.command, self.path, headers, body)
        except Lost:
            self.close_connection = True
            self.connection.shutdown(socket.SHUT_RDWR)
            return
        self.send_response(status)
        for name, value in more.items():
            self.send_header(name, value)
        if status not in (204, 304):
            self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if status not in (204, 304):
            self.wfile.write(content)

    do_GET = do_POST = do_PATCH = do_DELETE = _serve  # noqa: N815 — http.server's names


VERSION = "2.999.0"
POLL_WINDOW = 2.0
"""Seconds for which a poll of a scale set waits for a message. GitHub waits for about 50."""
_FILES = {"config.sh": 0o755, "run.sh": 0o755, "bin/runner.py": 0o755}


def packed() -> tuple[bytes, str]:
    """Return the archive and its SHA-256: the same every time."""
    tarred = io.BytesIO()
    with tarfile.open(fileobj=tarred, mode="w") as tar:
        for name, mode in _FILES.items():
            content = resources.files("fakes.github").joinpath("runner", name).read_bytes()
            member = tarfile.TarInfo(f"./{name}")
            member.size, member.mode = len(content), mode
            tar.addfile(member, io.BytesIO(content))
    archive = gzip.compress(tarred.getvalue(), mtime=0)
    return archive, hashlib.sha256(archive).hexdigest()
