"""Serve the page at `/`: the built files of `web/`, and every address that the page itself reads.

This module owns their headers. The policy allows nothing from elsewhere and no inline script. Files with a
hash in their name are cached. A path that is not in the list of built files does not exist. Without built
files (`make web` makes them), `/` says how to get them.
"""

import asyncio
import gzip
import hashlib
from dataclasses import dataclass
from http import HTTPStatus
from importlib.resources import files
from pathlib import Path

from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

BUILT = Path(str(files("muster"))) / "dashboard"
INDEX = "index.html"
PAGES = ("", "operations", "jobs", "nodes", "templates", "clusters", "events", "wallboard", "device", "api")
"""The first part of the addresses that the page knows; the rest of them is its own affair."""
_OTHERS = ("api", "codes", "healthz", "readyz", "metrics")
_HASHED = "assets/"
_MEDIA_TYPES = {
    ".css": "text/css",
    ".html": "text/html",
    ".js": "text/javascript",
    ".svg": "image/svg+xml",
}
"""Not asked of the system, which may have been told otherwise. All of them are text, and shrink."""
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "Cross-Origin-Opener-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}
NOT_BUILT = """\
Muster is running, but its page was not built into this installation.

From a checkout:  make web     (needs Node.js 20.19 or newer; without one, make gets it from PyPI)
Without the page: muster --help, or the API at /api/v1, described at /api/v1/openapi.json
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class File:
    body: bytes
    zipped: bytes | None
    media_type: str
    tag: str
    hashed: bool

    @classmethod
    def read(cls, path: Path, name: str) -> "File":
        body = path.read_bytes()
        media_type = _MEDIA_TYPES.get(path.suffix)
        return cls(
            body=body,
            zipped=gzip.compress(body, mtime=0) if media_type else None,
            media_type=media_type or "application/octet-stream",
            tag=f'"{hashlib.sha256(body).hexdigest()[:20]}"',
            hashed=name.startswith(_HASHED),
        )


class Dashboard:
    """In front of the API: takes what is the page's, and leaves the rest alone."""

    def __init__(self, otherwise: ASGIApp, *, built: Path = BUILT) -> None:
        self._otherwise = otherwise
        self._built = built
        self._files: dict[str, File] | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] not in ("GET", "HEAD") or _elsewhere(scope["path"]):
            await self._otherwise(scope, receive, send)
            return
        headers = Headers(scope=scope)
        if self._files is None:
            self._files = await asyncio.to_thread(self._read)
        answer = self._answer(scope["path"].removeprefix("/"), headers)
        await (answer or self._otherwise)(scope, receive, send)

    def _read(self) -> dict[str, File]:
        """Read and compress the built files, once: a few hundred kilobytes."""
        found = sorted(path for path in self._built.glob("**/*") if path.is_file())
        named = {path.relative_to(self._built).as_posix(): path for path in found}
        return {name: File.read(path, name) for name, path in named.items()} if INDEX in named else {}

    def _answer(self, path: str, headers: Headers) -> Response | None:
        """Return the file for a path, or None if the path is not the page's."""
        assert self._files is not None  # noqa: S101 — read before
        if path in self._files and path != INDEX:
            return _sent(self._files[path], headers)
        known = path.partition("/")[0] in PAGES
        if not known and "text/html" not in headers.get("accept", ""):
            return None
        status = HTTPStatus.OK if known else HTTPStatus.NOT_FOUND
        if not self._files:
            return PlainTextResponse(NOT_BUILT, HTTPStatus.NOT_FOUND if path else HTTPStatus.OK, HEADERS)
        return _sent(self._files[INDEX], headers, status=status)


def _elsewhere(path: str) -> bool:
    """Return whether the API answers this path. `/api` itself is the page with the API's reference."""
    return path.rstrip("/") != "/api" and path.removeprefix("/").partition("/")[0] in _OTHERS


def _sent(file: File, asked: Headers, *, status: HTTPStatus = HTTPStatus.OK) -> Response:
    caching = "public, max-age=31536000, immutable" if file.hashed else "no-cache"
    headers = {**HEADERS, "Cache-Control": caching, "ETag": file.tag, "Vary": "Accept-Encoding"}
    if status is HTTPStatus.OK and file.tag in asked.get("if-none-match", ""):
        return Response(status_code=HTTPStatus.NOT_MODIFIED, headers=headers)
    body = file.body
    if file.zipped is not None and "gzip" in asked.get("accept-encoding", ""):
        body = file.zipped
        headers["Content-Encoding"] = "gzip"
    return Response(body, status, headers, media_type=file.media_type)
