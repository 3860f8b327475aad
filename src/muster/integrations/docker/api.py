"""The Engine API over a Unix socket or TLS. The only module that knows HTTP.

Docker and Podman differ in codes, so an error carries status, message and Podman's `cause`, and callers ask
for what they need to know. Errors leave as EngineError or NoAnswer. Every answer is bounded.
Nothing is repeated here.
"""

import json
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import quote

import httpx

from muster.domain.errors import InvalidRequest
from muster.integrations.docker.tables import EngineConfig

CONNECT_WITHIN = 5.0
ANSWER_WITHIN = 20.0
ANSWER_MOST = 64 * 1024 * 1024
LINE_MOST = 1024 * 1024
VERSION = (1, 41)
"""What this adapter is written for: Docker 20.10 and Podman 4 speak it, and later ones still do."""
OLDEST = (1, 40)
CONNECTIONS = 32
HTTP_NOT_FOUND, HTTP_CONFLICT, HTTP_BAD, HTTP_ERROR = 404, 409, 400, 500
NAME_TAKEN = "that name is already in use"
"""Podman's cause for a name that is taken: it answers 500."""
STATE_IMPROPER = "container state improper"
"""Podman's cause for what a container can't do in its state: it answers 500."""


class EngineError(Exception):
    """The engine answered that it won't."""

    def __init__(self, status: int, message: str, cause: str = "") -> None:
        self.status = status
        self.message = message
        self.cause = cause
        super().__init__(message or f"the engine answered {status}")

    @property
    def missing(self) -> bool:
        return self.status == HTTP_NOT_FOUND

    @property
    def taken(self) -> bool:
        return self.status == HTTP_CONFLICT or (self.status == HTTP_ERROR and self.cause == NAME_TAKEN)

    @property
    def improper(self) -> bool:
        """It is in a state in which that can't be done."""
        return self.status == HTTP_CONFLICT or (self.status == HTTP_ERROR and self.cause == STATE_IMPROPER)


class NoAnswer(Exception):
    """Whether the engine heard isn't known: it is away, too slow, or answers with something else."""


class Engine:
    """One engine's API. Safe to use from several tasks."""

    def __init__(self, config: EngineConfig) -> None:
        self.config = config
        self.name = config.name
        self._version: str | None = None
        self._client = _client(config)

    async def close(self) -> None:
        await self._client.aclose()

    async def get(self, path: str, **given: Any) -> Any:
        return await self.call("GET", path, **given)

    async def post(self, path: str, **given: Any) -> Any:
        return await self.call("POST", path, **given)

    async def call(self, method: str, path: str, **given: Any) -> Any:
        """The answer's JSON; None if it is empty. Raises EngineError or NoAnswer."""
        text = await self.read(method, path, **given)
        if not text.strip():
            return None
        try:
            return json.loads(text)
        except ValueError as error:
            raise NoAnswer(f"its answer to {method} {path} is not JSON") from error

    async def read(self, method: str, path: str, *, most: int = ANSWER_MOST, **given: Any) -> bytes:
        """The answer's bytes. Raises NoAnswer for more than `most` of them."""
        found = bytearray()
        async with self._answered(method, path, **given) as answer:
            async for data in answer.aiter_bytes():
                found += data
                if len(found) > most:
                    raise NoAnswer(f"its answer to {method} {path} has more than {most} bytes")
        return bytes(found)

    async def lines(self, method: str, path: str, **given: Any) -> AsyncIterator[Mapping[str, Any]]:
        """Objects of an answer that goes on: one JSON per line, as they come. No end is too late."""
        rest = b""
        async with self._answered(method, path, timeout=None, **given) as answer:
            async for data in answer.aiter_bytes():
                *whole, rest = (rest + data).split(b"\n")
                if len(rest) > LINE_MOST:
                    raise NoAnswer(f"a line of its answer to {method} {path} has more than {LINE_MOST} bytes")
                for line in whole:
                    if line.strip():
                        yield _object(line, f"{method} {path}")
        if rest.strip():
            yield _object(rest, f"{method} {path}")

    async def version(self) -> str:
        """The API version to ask with. Raises EngineError for an engine that is too old."""
        if self._version is None:
            said = await self._plain("/version")
            self._version = _chosen(_number(said.get("ApiVersion")), _number(said.get("MinAPIVersion")))
        return self._version

    async def _plain(self, path: str) -> Mapping[str, Any]:
        found = bytearray()
        async with self._sent("GET", path, ANSWER_WITHIN) as answer:
            async for data in answer.aiter_bytes():
                found += data
                if len(found) > LINE_MOST:
                    break
        return _object(bytes(found), f"GET {path}")

    @asynccontextmanager
    async def _answered(
        self, method: str, path: str, *, timeout: float | None = ANSWER_WITHIN, **given: Any
    ) -> AsyncIterator[httpx.Response]:
        version = await self.version()
        async with self._sent(method, f"/v{version}{path}", timeout, **given) as answer:
            yield answer

    @asynccontextmanager
    async def _sent(
        self, method: str, path: str, timeout: float | None, **given: Any
    ) -> AsyncIterator[httpx.Response]:
        limits = httpx.Timeout(timeout, connect=CONNECT_WITHIN, pool=CONNECT_WITHIN)
        try:
            async with self._client.stream(method, path, timeout=limits, **given) as answer:
                if not answer.is_success and answer.status_code != httpx.codes.NOT_MODIFIED:
                    raise await _error(answer)
                yield answer
        except (httpx.TransportError, OSError) as error:
            # httpx lets through what TLS says after the handshake, such as a certificate that is missing.
            self._version = None  # it may come back as another
            raise NoAnswer(_words(error)) from error
        except (httpx.HTTPError, httpx.InvalidURL, httpx.StreamError) as error:
            raise NoAnswer(_words(error)) from error


def path_of(*parts: str) -> str:
    """A path whose parts can't lead elsewhere. An image's name keeps its slashes."""
    return "/" + "/".join(quote(part, safe="/:@") for part in parts)


def filters(**wanted: list[str]) -> str:
    return json.dumps(wanted)


def _client(config: EngineConfig) -> httpx.AsyncClient:
    limits = httpx.Limits(max_connections=CONNECTIONS, max_keepalive_connections=CONNECTIONS // 2)
    if config.socket is not None:
        # Nothing is encrypted here: without this, httpx would read all certificates that the machine trusts.
        unused = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        transport = httpx.AsyncHTTPTransport(uds=config.socket, limits=limits, verify=unused)
        return httpx.AsyncClient(transport=transport, base_url="http://engine", trust_env=False)
    transport = httpx.AsyncHTTPTransport(verify=_tls(config), limits=limits)
    return httpx.AsyncClient(transport=transport, base_url=config.host, trust_env=False)


def _tls(config: EngineConfig) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=str(config.ca) if config.ca else None)
        if config.cert is not None and config.key is not None:
            context.load_cert_chain(str(config.cert), str(config.key))
    except (OSError, ssl.SSLError) as error:
        files = ", ".join(str(each) for each in (config.ca, config.cert, config.key) if each)
        rule = f"its certificates can't be read ({files}): {error}"
        raise InvalidRequest(f"[docker.{config.name}]", config.host, rule) from error
    return context


async def _error(answer: httpx.Response) -> EngineError:
    data = bytearray()
    async for piece in answer.aiter_bytes():
        data += piece
        if len(data) > LINE_MOST:
            break
    try:
        said = json.loads(bytes(data))
    except ValueError:
        said = {}
    said = said if isinstance(said, dict) else {}
    message = said.get("message")
    words = message if isinstance(message, str) else data.decode("utf-8", "replace")
    return EngineError(answer.status_code, " ".join(words.split())[:500], str(said.get("cause") or ""))


def _object(data: bytes, asked: str) -> Mapping[str, Any]:
    try:
        found = json.loads(data)
    except ValueError as error:
        raise NoAnswer(f"its answer to {asked} is not JSON") from error
    if not isinstance(found, dict):
        raise NoAnswer(f"its answer to {asked} is not an object")
    return found


def _number(text: object) -> tuple[int, int] | None:
    major, dot, minor = text.partition(".") if isinstance(text, str) else ("", "", "")
    return (int(major), int(minor)) if dot and major.isdecimal() and minor.isdecimal() else None


def _chosen(newest: tuple[int, int] | None, oldest: tuple[int, int] | None) -> str:
    if newest is None:
        raise NoAnswer("its answer to GET /version names no ApiVersion: it is no Docker or Podman")
    if newest < OLDEST:
        raise EngineError(HTTP_BAD, f"it speaks API {newest[0]}.{newest[1]}, and 1.40 or newer is needed")
    chosen = max(min(VERSION, newest), oldest or OLDEST)
    return f"{chosen[0]}.{chosen[1]}"


def _words(error: Exception) -> str:
    return str(error) or type(error).__name__
