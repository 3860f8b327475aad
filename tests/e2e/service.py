"""A service as a test holds it: the process, the ways to hurt it, and a wire that can be cut."""

import os
import signal
import socket
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

import httpx

from tests.e2e.fork_server import ROOT
from tests.e2e.site import free_port, until
from tools.plain_http import NO_AUTHORITIES

APP = Path(__file__).with_name("service_app.py")


class Service:
    """The app of `service_app`. `gate`: it waits in its start-up until it is opened."""

    def __init__(
        self,
        root: Path,
        *,
        server: str,
        token: str,
        name: str = "web-1",
        gate: bool = False,
        probed: bool = True,
    ) -> None:
        root.mkdir(parents=True, exist_ok=True)
        self.log = root / f"{name}.log"
        self.port = free_port()
        self._gate = root / f"{name}.gate"
        self._server = server
        self._token = token
        self._name = name
        self._address = f"http://127.0.0.1:{self.port}" if probed else ""
        self._process: subprocess.Popen[bytes] | None = None
        if not gate:
            self.open()

    def open(self) -> None:
        self._gate.touch()

    def start(self) -> Self:
        environment = {
            **os.environ,
            "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'src'}",
            "MUSTER_SERVER": self._server,
            "MUSTER_ENROL_TOKEN": self._token,
            "MUSTER_NAME": self._name,
            "MUSTER_ADDRESS": self._address,
        }
        with self.log.open("ab") as log:
            argv = [sys.executable, str(APP), str(self.port), str(self._gate)]
            self._process = subprocess.Popen(argv, stdout=log, stderr=log, env=environment, cwd=ROOT)
        return self

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *error: object) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
            self._process.wait()

    @property
    def words(self) -> str:
        return self.log.read_text(errors="replace") if self.log.exists() else ""

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def send(self, number: int) -> None:
        assert self._process is not None
        self._process.send_signal(number)

    def ended(self, within: float = 30.0) -> int:
        assert self._process is not None
        return self._process.wait(within)

    def kill(self) -> None:
        self.send(signal.SIGKILL)
        assert self.ended() == -signal.SIGKILL

    def about(self) -> dict[str, Any]:
        """What it knows of itself, once it answers."""

        def look() -> dict[str, Any] | None:
            assert self.running, self.words
            with suppress(httpx.TransportError):
                found: dict[str, Any] = httpx.get(
                    self._url("/node"), timeout=5, trust_env=False, verify=NO_AUTHORITIES
                ).json()
                return found
            return None

        return until(look, "the app to answer")

    def do(self, path: str) -> None:
        assert (
            httpx.post(self._url(path), timeout=5, trust_env=False, verify=NO_AUTHORITIES).status_code == 200
        )

    def slowly(self, until_exists: Path) -> httpx.Response:
        return httpx.get(
            self._url(f"/slow?until={until_exists}"), timeout=60, trust_env=False, verify=NO_AUTHORITIES
        )

    def _url(self, path: str) -> str:
        return f"http://127.0.0.1:{self.port}{path}"


class Wire:
    """A loopback proxy. While it is cut nothing gets through either way, and neither side is told."""

    def __init__(self, target: int) -> None:
        self._target = target
        self._whole = threading.Event()
        self._whole.set()
        self._over = False
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._ends: list[socket.socket] = [self._listener]
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._listener.getsockname()[1]}"

    def cut(self) -> None:
        self._whole.clear()

    def heal(self) -> None:
        self._whole.set()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._over = True
        self._whole.set()
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        for end in self._ends:
            end.close()

    def _accept(self) -> None:
        while not self._over:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            self._ends.append(near)
            threading.Thread(target=self._join, args=(near,), daemon=True).start()

    def _join(self, near: socket.socket) -> None:
        self._whole.wait()
        try:
            far = socket.create_connection(("127.0.0.1", self._target), timeout=5)
        except OSError:
            near.close()
            return
        far.settimeout(None)
        self._ends.append(far)
        back = threading.Thread(target=self._pump, args=(far, near), daemon=True)
        back.start()
        self._pump(near, far)
        back.join()
        near.close()
        far.close()

    def _pump(self, source: socket.socket, sink: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(65536):
                self._whole.wait()
                sink.sendall(data)
        with suppress(OSError):
            sink.shutdown(socket.SHUT_WR)
