"""A receiver of webhooks on loopback that answers as it is told to."""

import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass(frozen=True)
class Message:
    path: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def content(self) -> Any:
        return json.loads(self.body)

    @property
    def id(self) -> str:
        return self.headers["webhook-id"]


class ReceiverServer:
    def __init__(self) -> None:
        self.messages: list[Message] = []
        self.answers: list[tuple[int, Mapping[str, str]]] = []
        """For the next messages; then 204."""
        self._port = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    def typed(self, kind: str) -> list[Message]:
        return [each for each in list(self.messages) if each.content.get("type") == kind]

    @contextmanager
    def listening(self) -> Iterator["ReceiverServer"]:
        mine = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                names = {name.lower(): value for name, value in self.headers.items()}
                mine.messages.append(Message(self.path, names, body))
                status, headers = mine.answers.pop(0) if mine.answers else (204, {})
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", "0")
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
