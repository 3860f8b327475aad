"""DynamoDB and SQS on this machine: one emulator per test process, one table per store.

The emulator serialises every write, so it proves our logic only. `faults.py` adds what only the
real service shows: throttling, transactions that conflict, answers that are lost.
"""

import asyncio
import atexit
import os
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import cache
from itertools import count
from tempfile import TemporaryFile
from typing import Any
from urllib.parse import urlsplit
from urllib.request import urlopen

from muster.stores.dynamodb import AwsClient, DynamoStore, Location, assembled, create, schema
from muster.stores.dynamodb.candidates import queue_name
from muster.system import SystemClock
from tests.stores.ids import CountingIds
from tests.stores.watchdog import ends_with_us

REGION = "eu-central-1"
SHARDS = 3
_NUMBERS = count(1)


@cache
def endpoint() -> str:
    """Where it listens. It is started by the first who asks, and ends with the process."""
    os.environ.update(AWS_ACCESS_KEY_ID="test", AWS_SECRET_ACCESS_KEY="test")
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    # The application alone, under our own server: several times as fast as with the one that it brings.
    command = [sys.executable, "-m", "uvicorn", "ministack.app:app", "--fd", str(listener.fileno())]
    with TemporaryFile() as log, listener:
        process = subprocess.Popen(
            [*command, "--log-level", "critical", "--no-access-log", "--timeout-keep-alive", "600"],
            env={**os.environ, "GATEWAY_PORT": str(port), "SERVICES": "dynamodb,sqs", "LOG_LEVEL": "ERROR"},
            pass_fds=[listener.fileno()],
            stdout=log,
            stderr=log,
        )
        atexit.register(process.kill)
        ends_with_us(process.pid)
        url = f"http://127.0.0.1:{port}"
        try:
            # The socket listens already: the answer comes as soon as the emulator is up.
            urlopen(f"{url}/_ministack/health", timeout=60).close()  # noqa: S310 — our own
        except OSError as error:
            log.seek(0)
            raise RuntimeError(f"the emulator gives no answer: {log.read().decode()}") from error
    return url


def place() -> tuple[str, int]:
    where = urlsplit(endpoint())
    assert where.hostname is not None and where.port is not None
    return where.hostname, where.port


def location(name: str | None = None, *, at: str | None = None) -> Location:
    table = name or f"muster-{os.getpid()}-{next(_NUMBERS)}"
    return Location(table=table, region=REGION, endpoint=at or endpoint())


def address(*, through: str | None = None) -> str:
    """Of a new store, as a server is told; by another endpoint, if it is to be found through that."""
    where = location()

    async def make() -> None:
        async with wired(where) as aws:
            await create(aws, ids=CountingIds(), clock=SystemClock(), shards=SHARDS)

    asyncio.run(make())
    return f"dynamodb://{where.table}?region={REGION}&endpoint={through or endpoint()}"


async def made(aws: AwsClient, *, shards: int = SHARDS) -> AwsClient:
    """A table, and the one queue that tests use: what `create` makes, without its looks."""
    await aws.dynamodb("create_table", **schema.definition(aws.location.table))
    await schema.name_installation(aws, ids=CountingIds(), shards=shards)
    await aws.sqs("create_queue", QueueName=queue_name(aws.location.table, "large"))
    return aws


@asynccontextmanager
async def wired(where: Location | None = None) -> AsyncIterator[AwsClient]:
    aws = await AwsClient.open(where or location())
    try:
        yield aws
    finally:
        await aws.close()


async def over(aws: AwsClient, *, shards: int = SHARDS, **given: Any) -> DynamoStore:
    """A store over a table of its own, by the clients of another: making clients is dear."""
    options: dict[str, Any] = {"beat_every": 0.0, "wait": 0, "ids": CountingIds(), "clock": SystemClock()}
    options["settle"] = 0.0
    return await assembled(await made(aws.at(location()), shards=shards), **(options | given))
