"""A registry on loopback that serves one image, as slowly as a test wants.

Speaks as much of the distribution API as a pull needs: the manifest by tag or digest, and its two blobs.
"""

import gzip
import hashlib
import io
import json
import os
import tarfile
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

MANIFEST = "application/vnd.docker.distribution.manifest.v2+json"
CONFIG = "application/vnd.docker.container.image.v1+json"
LAYER = "application/vnd.docker.image.rootfs.diff.tar.gzip"
PIECE = 256 * 1024


def digest(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def _unique(archive: Path) -> bytes:
    """The archive with one more file: an engine that has the same layer already would not ask for it."""
    text = os.urandom(16).hex().encode()
    with tempfile.TemporaryDirectory() as directory:
        copy = Path(directory) / "layer.tar"
        copy.write_bytes(archive.read_bytes())
        with tarfile.open(copy, "a") as tar:
            entry = tarfile.TarInfo("unique")
            entry.size = len(text)
            tar.addfile(entry, io.BytesIO(text))
        return copy.read_bytes()


class Registry:
    """`go` lets the layer pass; until then its first half is all that a pull gets."""

    def __init__(self, archive: Path) -> None:
        plain = _unique(archive)
        layer = gzip.compress(plain, 1, mtime=0)
        config = json.dumps(
            {
                "architecture": "amd64",
                "os": "linux",
                "config": {"Env": ["PATH=/usr/local/bin:/usr/bin:/bin"]},
                "rootfs": {"type": "layers", "diff_ids": [digest(plain)]},
            }
        ).encode()
        self._blobs = {digest(each): each for each in (layer, config)}
        self._layer = digest(layer)
        self._manifest = json.dumps(
            {
                "schemaVersion": 2,
                "mediaType": MANIFEST,
                "config": {"mediaType": CONFIG, "size": len(config), "digest": digest(config)},
                "layers": [{"mediaType": LAYER, "size": len(layer), "digest": self._layer}],
            }
        ).encode()
        self.go = threading.Event()
        self.asked = threading.Event()
        """Set when a pull has begun to load the layer."""
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True

    @property
    def image(self) -> str:
        return f"127.0.0.1:{self._server.server_port}/muster-test:7"

    @contextmanager
    def serving(self) -> Iterator["Registry"]:
        thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        thread.start()
        try:
            yield self
        finally:
            self.go.set()
            self._server.shutdown()
            self._server.server_close()
            thread.join()

    def pieces(self, name: str) -> Iterator[bytes]:
        data = self._blobs[name]
        for at in range(0, len(data), PIECE):
            if name == self._layer and at > len(data) // 2:
                self.asked.set()
                self.go.wait()
            yield data[at : at + PIECE]

    def found(self, path: str) -> tuple[str, int, str] | None:
        """The media type, the size and the digest of what a path names."""
        name = path.rpartition("/")[2]
        if path == "/v2/":
            return "application/json", 2, ""
        if "/manifests/" in path and name in ("7", digest(self._manifest)):
            return MANIFEST, len(self._manifest), digest(self._manifest)
        if "/blobs/" in path and name in self._blobs:
            return "application/octet-stream", len(self._blobs[name]), name
        return None

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        registry = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_HEAD(self) -> None:
                self._head()

            def do_GET(self) -> None:
                kind = self._head()
                if kind == MANIFEST:
                    self.wfile.write(registry._manifest)
                elif kind == "application/json":
                    self.wfile.write(b"{}")
                elif kind:
                    for piece in registry.pieces(self.path.rpartition("/")[2]):
                        self.wfile.write(piece)

            def _head(self) -> str:
                found = registry.found(self.path)
                if found is None:
                    self.send_error(404)
                    return ""
                kind, size, name = found
                self.send_response(200)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(size))
                if name:
                    self.send_header("Docker-Content-Digest", name)
                self.end_headers()
                return kind

            def log_message(self, *_: object) -> None:
                """Say nothing."""

        return Handler
