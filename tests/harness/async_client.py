"""Perform the client's calls, awaiting: for tests and benchmarks whose server is in the same loop."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from typing import Self

import httpx

from muster.client import calls
from muster.client.calls import Call, T
from muster.client.http import (
    STREAMING,
    UPLOADING,
    Target,
    content_of,
    pause,
    request_of,
    worth_repeating,
)
from muster.client.problems import CannotReach
from muster.client.reconnects import ChangeListener, Reconnects, StreamAttempt, ignore_change
from muster.client.streams import Stream, StreamReader
from muster.domain.errors import MusterError, StoreUnavailable
from muster.wire.commands import Blob


class AsyncClient:
    def __init__(
        self,
        url: str,
        token: str | None = None,
        *,
        transport: httpx.AsyncBaseTransport | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        on_change: ChangeListener = ignore_change,
    ) -> None:
        """Open no connection yet. `on_change` is called, from any thread, when the server is lost and when
        it is back."""
        self._target = Target(url=url.rstrip("/"), token=token)
        self._reconnects = Reconnects(self._target.url, on_change)
        self._http = httpx.AsyncClient(**self._target.options(), transport=transport)
        self._sleep = sleep

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close()

    async def close(self) -> None:
        await self._http.aclose()

    async def send(self, call: Call[T]) -> T:
        """Perform a call. Repeat an idempotent one while the server is away or asks to wait."""
        for attempt in range(self._target.tries):
            try:
                return call.read(await self._once(call))
            except MusterError as error:
                if attempt == self._target.tries - 1 or not worth_repeating(error, call):
                    raise
            await self._sleep(pause(attempt))
        raise AssertionError("unreachable")

    async def _once(self, call: Call[T]) -> bytes:
        with self._target.reaching():
            return content_of(await self._http.request(**request_of(call)))

    async def stream(self, stream: Stream[T]) -> AsyncIterator[T]:
        """Yield the items of a stream, across lost connections, each once."""
        reading = StreamReader(stream)
        attempt = self._reconnects.attempt(tries=self._target.tries)
        while not reading.over:
            try:
                async for item in self._connected(reading, attempt):
                    attempt.came()
                    yield item
            except (CannotReach, StoreUnavailable):
                if not attempt.failed():
                    raise
            if not reading.over:
                await self._sleep(pause(attempt.number))

    async def _connected(self, reading: StreamReader[T], attempt: StreamAttempt) -> AsyncIterator[T]:
        asked = reading.stream
        with self._target.reaching():
            async with self._http.stream(
                "GET", asked.path, params=dict(asked.params), headers=reading.headers, timeout=STREAMING
            ) as response:
                await self._check(response)
                reading.connected()
                attempt.connected()
                async for line in response.aiter_lines():
                    for item in reading.line(line):
                        yield item
                    if reading.over:
                        return

    async def follow(self, command_id: str, *, offset: int = 0) -> AsyncIterator[bytes]:
        """Yield a command's output from an offset to its end, across lost connections, each byte once."""
        attempt = self._reconnects.attempt(tries=self._target.tries)
        while True:
            try:
                async for piece in self._output(command_id, offset, attempt):
                    offset += len(piece)
                    attempt.came()
                    yield piece
                # An end may also be the server's: only a command that has ended, with nothing left, is done.
                if (await self.send(calls.command(command_id))).ended:
                    if not await self.send(calls.output(command_id, offset=offset)):
                        return
                    continue
            except (CannotReach, StoreUnavailable):
                if not attempt.failed():
                    raise
            await self._sleep(pause(attempt.number))

    async def _output(self, command_id: str, offset: int, attempt: StreamAttempt) -> AsyncIterator[bytes]:
        params = {"offset": str(offset), "follow": "true"}
        path = calls.output_path(command_id)
        # Silence proves nothing: look whether it has ended, and go on.
        with self._target.reaching(), suppress(httpx.ReadTimeout):
            async with self._http.stream("GET", path, params=params, timeout=STREAMING) as response:
                await self._check(response)
                attempt.connected()
                async for piece in response.aiter_raw():
                    yield piece

    async def upload(self, pieces: AsyncIterator[bytes]) -> Blob:
        """Send an archive for commands to start from."""
        with self._target.reaching():
            response = await self._http.put(calls.BLOBS, content=pieces, timeout=UPLOADING)
            return calls.read_blob(content_of(response))

    async def _check(self, response: httpx.Response) -> None:
        if not response.is_success:
            await response.aread()
            content_of(response)
