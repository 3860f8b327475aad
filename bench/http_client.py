"""HTTP as bytes: the cheapest client that still speaks it, so that a benchmark measures the server."""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from typing import Any, Self

HOST = "127.0.0.1"


def request(
    method: str, path: str, *, token: str = "", said: Mapping[str, Any] | None = None, close: bool = False
) -> bytes:
    body = b"" if said is None else json.dumps(said).encode()
    lines = [f"{method} {path} HTTP/1.1", f"Host: {HOST}"]
    if close:
        lines.append("Connection: close")
    if token:
        lines.append(f"Authorization: Bearer {token}")
    if said is not None:
        lines += ["Content-Type: application/json", f"Content-Length: {len(body)}"]
    return ("\r\n".join(lines) + "\r\n\r\n").encode() + body


class Wire:
    """One connection that is kept; one request at a time."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None

    async def __aenter__(self) -> Self:
        self._reader, self._writer = await asyncio.open_connection(HOST, self._port)
        return self

    async def reopen(self) -> None:
        if self._writer is not None:
            self._writer.close()
        await self.__aenter__()

    async def __aexit__(self, *error: object) -> None:
        if self._writer is not None:
            self._writer.close()

    async def ask(
        self, method: str, path: str, *, token: str = "", said: Mapping[str, Any] | None = None
    ) -> bytes:
        """Return the whole answer; of a stream, when it has ended."""
        assert self._reader is not None and self._writer is not None
        self._writer.write(request(method, path, token=token, said=said))
        head = await self._reader.readuntil(b"\r\n\r\n")
        status, *headers = head.lower().split(b"\r\n")
        fields = dict(line.split(b": ", 1) for line in headers if line)
        length = fields.get(b"content-length")
        body = await (self._chunks() if length is None else self._reader.readexactly(int(length)))
        assert status.split()[1] in (b"200", b"202"), f"{method} {path}: {status.decode()} {body.decode()}"
        return body

    async def lines(self, path: str, *, token: str) -> AsyncIterator[bytes]:
        """Yield each chunk of a stream, which is a line."""
        assert self._reader is not None and self._writer is not None
        self._writer.write(request("GET", path, token=token))
        head = await self._reader.readuntil(b"\r\n\r\n")
        assert head.split()[1] == b"200", head.decode()
        while size := int(await self._reader.readuntil(b"\r\n"), 16):
            yield (await self._reader.readexactly(size + 2))[:size]

    async def _chunks(self) -> bytes:
        assert self._reader is not None
        found = b""
        while True:
            size = int(await self._reader.readuntil(b"\r\n"), 16)
            found += (await self._reader.readexactly(size + 2))[:size]
            if size == 0:
                return found


async def provisioned(wire: Wire, token: str, *, template: str, count: int, run: str) -> Any:
    """Ask for nodes and follow the operation to its end, as a client does; return its last progress."""
    said = {"template": template, "count": count, "run": run}
    accepted = json.loads(await wire.ask("POST", "/api/v1/provisions", token=token, said=said))
    return await followed(wire, token, accepted["operation_id"])


async def released(wire: Wire, token: str, operation_id: str) -> Any:
    said = {"operation_id": operation_id}
    accepted = json.loads(await wire.ask("POST", "/api/v1/releases", token=token, said=said))
    return await followed(wire, token, accepted["operation_id"])


async def followed(wire: Wire, token: str, operation_id: str) -> Any:
    stream = await wire.ask("GET", f"/api/v1/operations/{operation_id}/events", token=token)
    last = [line for line in stream.split(b"\n") if line.startswith(b"data: ")][-1]
    ended = json.loads(last.removeprefix(b"data: "))
    assert ended["status"] == "succeeded", ended
    return ended
