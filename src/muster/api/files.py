"""Keep files that pass through the server: archives for commands, and results of commands.

There is one directory per kind. A file is written under a temporary name and renamed when it is whole, so no
reader sees half of one. Each file and the total are bounded. A file is deleted after some hours, or sooner
if there is no room and no request for it lately. For a refused file, the reason is kept instead.
"""

import asyncio
import contextlib
import hashlib
import os
import re
import tempfile
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

from muster.api.problems import NotKept, StorageFull, TooLarge
from muster.domain.errors import InvalidRequest, NotFound

_WRITE = 1 << 20
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9.-]{0,127}", re.ASCII)
_PARTIAL = ".partial"
_PARTIAL_KEPT = 3600.0
_WHY = ".why"
SPARED = 3600.0
"""Seconds for which a file that was put here or asked for gives way to no other."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    name: str
    size: int
    expires_at: float


class FileStore:
    def __init__(self, directory: Path, *, what: str, most: int, total: int, keep: float) -> None:
        self._directory = directory
        self._what = what
        self._most = most
        self._total = total
        self._keep = keep
        self._used = 0
        """Bytes of the files that are whole, as of the last look."""
        self._arriving: dict[Path, int] = {}
        """Bytes so far of each file that is on its way."""
        self._turn = asyncio.Lock()
        """A look counts a file as whole or as arriving, never as both or neither."""

    async def put(self, chunks: AsyncIterator[bytes], *, now: float, name: str | None = None) -> Stored:
        """Take a file. Without a name it is named by its content, so the same file is kept once."""
        async with self._turn:
            self._used = await asyncio.to_thread(self._prepare, now)
            file = await asyncio.to_thread(self._open)
            path = Path(file.name)
            self._arriving[path] = 0
        digest, size, waiting = hashlib.sha256(), 0, bytearray()
        try:
            with file:
                async for chunk in chunks:
                    size += len(chunk)
                    self._arriving[path] = size
                    self._check(size)
                    waiting += chunk
                    if len(waiting) >= _WRITE:
                        await asyncio.to_thread(_append, file, digest, bytes(waiting))
                        waiting.clear()
                await asyncio.to_thread(_append, file, digest, bytes(waiting))
            kept = name or f"sha256-{digest.hexdigest()}"
            async with self._turn:
                await asyncio.to_thread(self._keep_as, path, kept, now)
                self._used += self._arriving.pop(path)
        except OSError as error:
            raise StorageFull(f"cannot keep the {self._what}: {error.strerror or error}") from error
        finally:
            self._arriving.pop(path, None)
            await asyncio.to_thread(path.unlink, missing_ok=True)
        return Stored(name=kept, size=size, expires_at=now + self._keep)

    async def put_named(self, name: str, chunks: AsyncIterator[bytes], *, now: float) -> Stored:
        """Take a file under a name. If it is refused, keep the reason for callers that look for it."""
        try:
            return await self.put(chunks, now=now, name=name)
        except (TooLarge, StorageFull) as refused:
            await asyncio.to_thread(self._leave_word, name, str(refused))
            raise

    async def find(self, name: str, *, now: float) -> Path:
        """Return the path of a file, and keep it for longer. Raises NotFound, or NotKept for a refused
        file."""
        return await asyncio.to_thread(self._find, name, now)

    def _check(self, size: int) -> None:
        if size > self._most:
            raise TooLarge(f"cannot take the {self._what}: it is more than {self._most} bytes; send less")
        if self._used + sum(self._arriving.values()) > self._total:
            raise StorageFull(
                f"cannot keep the {self._what}: {self._total} bytes are in use; try again later"
            )

    def _prepare(self, now: float) -> int:
        """Forget what is old; say how many bytes are in use, without those that are on their way."""
        self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        kept: list[tuple[float, int, Path]] = []
        for entry in os.scandir(self._directory):
            try:
                found = entry.stat()
            except FileNotFoundError:
                continue
            path = Path(entry.path)
            if path in self._arriving:
                continue
            if now - found.st_mtime > (_PARTIAL_KEPT if path.suffix == _PARTIAL else self._keep):
                path.unlink(missing_ok=True)
            else:
                kept.append((found.st_mtime, found.st_size, path))
        arriving = sum(self._arriving.values())
        used = sum(size for _, size, _ in kept)
        # The largest file that may come must fit, if files without recent requests can make way.
        for since, size, path in sorted(kept):
            if self._total - used - arriving >= self._most or now - since <= SPARED:
                break
            path.unlink(missing_ok=True)
            used -= size
        return used

    def _open(self) -> "tempfile._TemporaryFileWrapper[bytes]":
        return tempfile.NamedTemporaryFile(dir=self._directory, suffix=_PARTIAL, delete=False)

    def _keep_as(self, path: Path, name: str, now: float) -> None:
        os.utime(path, (now, now))
        path.replace(self._place(name))

    def _find(self, name: str, now: float) -> Path:
        path = self._place(name)
        try:
            found = path.stat()
        except FileNotFoundError:
            self._say_why_not(path)
            raise NotFound(self._what, name) from None
        if now - found.st_mtime > self._keep:
            raise NotFound(self._what, name)
        os.utime(path, (now, now))
        return path

    def _leave_word(self, name: str, why: str) -> None:
        # On a full disk not even that may be possible; then it is not found.
        with contextlib.suppress(OSError):
            self._place(name + _WHY).write_text(why)

    def _say_why_not(self, path: Path) -> None:
        with contextlib.suppress(FileNotFoundError):
            raise NotKept(path.with_name(path.name + _WHY).read_text())

    def _place(self, name: str) -> Path:
        if not _NAME.fullmatch(name):
            raise InvalidRequest("id", name, "must be letters, digits, dots and hyphens")
        return self._directory / name


def _append(file: "tempfile._TemporaryFileWrapper[bytes]", digest: "hashlib._Hash", data: bytes) -> None:
    digest.update(data)
    file.write(data)
