"""An HTTP server on loopback that keeps what was posted to it, and answers as its owner says."""

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, TypeVar

T = TypeVar("T", bound="HttpListener")


@dataclass(frozen=True)
class Posted:
    path: str
    headers: Mapping[str, str]
    """By their names in lower case."""
    body: bytes


@dataclass(frozen=True)
class Answer:
    status: int
    headers: Mapping[str, str] = field(default_factory=dict)


class HttpListener:
    def __init__(self) -> None:
        self._port = 0

    @property
    def url(self) -> str:
        """The same each time it listens."""
        return f"http://127.0.0.1:{self._port}"

    def took(self, posted: Posted) -> Answer:
        """Take a request and say how it is answered. Called in a thread."""
        raise NotImplementedError

    @contextmanager
    def listening(self: T) -> Iterator[T]:
        mine = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                names = {name.lower(): value for name, value in self.headers.items()}
                answer = mine.took(Posted(self.path, names, body))
                self.send_response(answer.status)
                for name, value in {**answer.headers, "Content-Length": "0"}.items():
                    self.send_header(name, value)
                self.end_headers()

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 — the base names it so
                """Say nothing."""

        server = ThreadingHTTPServer(("127.0.0.1", self._port), Handler)
        self._port = server.server_address[1]
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield self
        finally:
            server.shutdown()
            server.server_close()
            thread.join()
