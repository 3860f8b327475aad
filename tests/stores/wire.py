"""A wire between a store and its engine that can be cut, and that can swallow the answer to a commit."""

import contextlib
import socket
import threading
from pathlib import Path


class Wire:
    def __init__(self, target: Path | tuple[str, int]) -> None:
        """`target`: the socket of PostgreSQL in that directory, or a port."""
        self._target = target
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listening.getsockname()[1]
        self._ends: list[socket.socket] = []
        self._cut = False
        self._swallow = threading.Event()
        self.swallowed = threading.Event()
        threading.Thread(target=self._accept, daemon=True).start()

    def url(self, address: str) -> str:
        """The same database, through the wire."""
        database = address.split("/")[3].split("?", maxsplit=1)[0]
        return f"postgresql://postgres@127.0.0.1:{self.port}/{database}?sslmode=disable&gssencmode=disable"

    def endpoint(self) -> str:
        """The emulator of AWS, through the wire."""
        return f"http://127.0.0.1:{self.port}"

    def cut(self) -> None:
        self._cut = True
        for end in tuple(self._ends):
            _close(end)

    def mend(self) -> None:
        self._cut = False

    def swallow_the_next_answer_to_a_commit(self) -> None:
        self.swallowed.clear()
        self._swallow.set()

    def close(self) -> None:
        self.cut()
        _close(self._listening)

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listening.accept()
            except OSError:
                return
            if self._cut:
                _close(near)
                continue
            far = self._connected()
            self._ends += [near, far]
            dropping = threading.Event()
            threading.Thread(target=self._pump, args=(near, far, dropping), daemon=True).start()
            threading.Thread(target=self._answer, args=(far, near, dropping), daemon=True).start()

    def _connected(self) -> socket.socket:
        if not isinstance(self._target, Path):
            return socket.create_connection(self._target)
        far = socket.socket(socket.AF_UNIX)
        far.connect(str(self._target / ".s.PGSQL.5432"))
        return far

    def _pump(self, near: socket.socket, far: socket.socket, dropping: threading.Event) -> None:
        reads = False  # a reader's COMMIT has no answer that counts
        with contextlib.suppress(OSError):
            while data := near.recv(65536):
                reads = reads or b"READ ONLY" in data
                if b"COMMIT\0" in data and not reads and self._swallow.is_set():
                    self._swallow.clear()
                    dropping.set()
                far.sendall(data)
        _close(far)

    def _answer(self, far: socket.socket, near: socket.socket, dropping: threading.Event) -> None:
        with contextlib.suppress(OSError):
            while data := far.recv(65536):
                if dropping.is_set():
                    self.swallowed.set()
                    break
                near.sendall(data)
        _close(near)


def _close(end: socket.socket) -> None:
    with contextlib.suppress(OSError):
        end.shutdown(socket.SHUT_RDWR)
    end.close()
