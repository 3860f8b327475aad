"""An engine that answers anything: a server on a Unix socket with one answer for every path but /version."""

import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path

VERSION = b'{"ApiVersion": "1.41", "MinAPIVersion": "1.12"}'


class _Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    daemon_threads = True


@contextmanager
def answering(path: Path, answer: bytes, *, status: int = 200, version: bytes = VERSION) -> Iterator[str]:
    """Its address, while it answers."""

    class Handler(BaseHTTPRequestHandler):
        def address_string(self) -> str:
            return "engine"

        def _send(self) -> None:
            length = int(self.headers.get("Content-Length", 0))
            self.rfile.read(length)
            plain = self.path == "/version"
            self.send_response(200 if plain else status)
            data = version if plain else answer
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_POST = do_PUT = do_DELETE = _send  # noqa: N815 — as the library names them

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with _Server(str(path), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield f"unix://{path}"
        finally:
            server.shutdown()
            thread.join()
