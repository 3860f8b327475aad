"""Images: whether an engine has one, and getting it, with progress.

There is one pull per engine and image at a time. Credentials are read from their file at each pull, so they
can be changed without a restart.
"""

import asyncio
import base64
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from muster.integrations.docker.api import Engine, EngineError, path_of
from muster.integrations.docker.spec import Image

WITHIN = 3600.0
"""Seconds for one pull. A node's own deadline is far shorter; the image serves the next one."""
Progress = Callable[[str], None]
"""Told in words how far it is."""
MB = 1_000_000


async def has(engine: Engine, image: Image) -> bool:
    try:
        await engine.get(path_of("images", image.whole, "json"))
    except EngineError as error:
        if error.missing:
            return False
        raise
    return True


async def pull(engine: Engine, image: Image, tell: Progress) -> None:
    """Raises EngineError with the registry's words, NoAnswer, or TimeoutError."""
    headers = {}
    credentials = await asyncio.to_thread(registry_auth, engine.config.registry_auth, image.registry)
    if credentials:
        headers["X-Registry-Auth"] = credentials
    layers: dict[str, tuple[int, int]] = {}
    asked = {"fromImage": image.name, "tag": image.reference}
    async with asyncio.timeout(WITHIN):
        async for line in engine.lines("POST", "/images/create", params=asked, headers=headers):
            failed = _failure(line)
            if failed:
                raise EngineError(0, failed)
            _note(layers, line)
            tell(words(layers))


def words(layers: Mapping[str, tuple[int, int]]) -> str:
    """How far a pull is, in steps of ten percent: each new word is a mark in the node's timeline."""
    total = sum(size for _, size in layers.values())
    if not total:
        return ""
    percent = min(100, 100 * sum(done for done, _ in layers.values()) // total)
    return f"{percent // 10 * 10} % of {max(1, total // MB)} MB"


def registry_auth(path: Path | None, registry: str) -> str:
    """The header for a registry, from a file like Docker's config.json; empty if it has none."""
    if path is None:
        return ""
    try:
        auths = json.loads(path.read_bytes()).get("auths") or {}
        for host in (registry, f"https://{registry}", "https://index.docker.io/v1/"):
            entry = (
                auths.get(host) if host != "https://index.docker.io/v1/" or registry == "docker.io" else None
            )
            if entry:
                user, _, password = base64.b64decode(entry.get("auth", "")).decode().partition(":")
                given = {"username": user, "password": password, "serveraddress": registry}
                return base64.urlsafe_b64encode(json.dumps(given).encode()).decode()
    except (OSError, ValueError, AttributeError, TypeError) as error:
        raise EngineError(0, f"the credentials in {path} can't be read: {type(error).__name__}") from error
    return ""


def _failure(line: Mapping[str, Any]) -> str:
    detail = line.get("errorDetail")
    told = detail.get("message") if isinstance(detail, Mapping) else None
    told = told or line.get("error")
    return " ".join(told.split())[:500] if isinstance(told, str) else ""


def _note(layers: dict[str, tuple[int, int]], line: Mapping[str, Any]) -> None:
    """Only of what is downloaded: unpacking counts the same bytes again."""
    identity, detail = line.get("id"), line.get("progressDetail")
    if not isinstance(identity, str) or not isinstance(detail, Mapping):
        return
    done, size = detail.get("current"), detail.get("total")
    known = layers.get(identity, (0, 0))
    if isinstance(done, int) and isinstance(size, int) and size > 0:
        layers[identity] = (max(known[0], min(done, size)), max(known[1], size))
    elif line.get("status") in ("Download complete", "Pull complete"):
        layers[identity] = (known[1], known[1])
