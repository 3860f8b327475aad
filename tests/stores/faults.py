"""What stands between a store and its emulator: a proxy that does what real AWS does on a bad day.

It speaks HTTP to the real SDK, so that what is proven includes the SDK's own repeats. Each fault strikes the
next so many calls of a verb.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from tests.stores.emulator import endpoint

PREFIX = "com.amazonaws.dynamodb.v20120810#"
Answer = Callable[[dict[str, Any]], dict[str, Any]]


def throttled(_request: dict[str, Any]) -> dict[str, Any]:
    return {"__type": f"{PREFIX}ProvisionedThroughputExceededException", "message": "slow down"}


def conflicting(request: dict[str, Any]) -> dict[str, Any]:
    """Another transaction had the first of the items at that moment."""
    reasons = [{"Code": "None"} for _ in request["TransactItems"]]
    reasons[0] = {"Code": "TransactionConflict", "Message": "busy"}
    error = {"__type": f"{PREFIX}TransactionCanceledException", "message": "cancelled"}
    return {**error, "CancellationReasons": reasons}


def refusing(_request: dict[str, Any]) -> dict[str, Any]:
    return {"__type": f"{PREFIX}UnrecognizedClientException", "message": "who are you?"}


@dataclass(slots=True)
class Fault:
    verb: str
    times: int
    answer: Answer | None = None
    """None: the call is carried out, and its answer is lost."""


@dataclass(slots=True)
class Faults:
    url: str = ""
    calls: list[str] = field(default_factory=list)
    """Verbs, in the order in which they came."""
    pending: list[Fault] = field(default_factory=list)
    silent: bool = False
    """Calls are taken and never answered."""

    def strike(self, verb: str, answer: Answer | None = None, *, times: int = 1) -> None:
        self.pending.append(Fault(verb=verb, times=times, answer=answer))

    def clear(self) -> None:
        self.pending.clear()

    def due(self, verb: str) -> Fault | None:
        for fault in self.pending:
            if fault.verb in (verb, "*") and fault.times > 0:
                fault.times -= 1
                return fault
        return None


@asynccontextmanager
async def faulty() -> AsyncIterator[Faults]:
    faults = Faults()
    server = await asyncio.start_server(lambda r, w: _serve(faults, r, w), "127.0.0.1", 0)
    faults.url = "http://{}:{}".format(*server.sockets[0].getsockname())
    try:
        yield faults
    finally:
        server.close()


async def _serve(faults: Faults, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while request := await _message(reader):
            head, body = request
            verb = _verb(head)
            faults.calls.append(verb)
            fault = faults.due(verb)
            if faults.silent:
                await asyncio.Event().wait()
            if fault is not None and fault.answer is not None:
                writer.write(_error(fault.answer(json.loads(body))))
                continue
            answer = await _forwarded(head, body)
            if fault is not None:
                return
            writer.write(answer)
            await writer.drain()
    except (ConnectionError, asyncio.IncompleteReadError):
        return
    finally:
        writer.close()


async def _message(reader: asyncio.StreamReader) -> tuple[bytes, bytes] | None:
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError:
        return None
    length = next(
        (int(line[15:]) for line in head.lower().split(b"\r\n") if line[:15] == b"content-length:"), 0
    )
    return head, await reader.readexactly(length)


def _verb(head: bytes) -> str:
    lines = head.decode("latin-1").split("\r\n")
    target = next((line for line in lines if line.lower().startswith("x-amz-target:")), "")
    return target.rpartition(".")[2].strip()


async def _forwarded(head: bytes, body: bytes) -> bytes:
    where = urlsplit(endpoint())
    reader, writer = await asyncio.open_connection(where.hostname, where.port)
    try:
        writer.write(head + body)
        answer = await _message(reader)
        return b"" if answer is None else b"".join(answer)
    finally:
        writer.close()


def _error(body: dict[str, Any]) -> bytes:
    text = json.dumps(body).encode()
    head = (
        f"HTTP/1.1 400 Bad Request\r\nContent-Type: application/x-amz-json-1.0\r\nContent-Length: {len(text)}"
    )
    return head.encode() + b"\r\n\r\n" + text
