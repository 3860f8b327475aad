"""Perform calls, blocking: for the CLI and for scripts."""

import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Self

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
from muster.wire.base import Page
from muster.wire.commands import Blob

if TYPE_CHECKING:
    from websockets.sync.client import ClientConnection

_PIECE = 1 << 20


def _unheard(_size: int) -> None:
    """Ignore how far a transfer is; the default listener."""


class SyncClient:
    def __init__(
        self,
        url: str,
        token: str | None = None,
        *,
        transport: httpx.BaseTransport | None = None,
        sleep: Callable[[float], None] = time.sleep,
        on_change: ChangeListener = ignore_change,
        ca_file: Path | None = None,
        trace: str = "",
    ) -> None:
        """Open no connection yet. `on_change` is called, from any thread, when the server is lost and when
        it is back. `trace`: the `traceparent` that requests carry."""
        self._target = Target(url=url.rstrip("/"), token=token, trace=trace, ca_file=ca_file)
        self._reconnects = Reconnects(self._target.url, on_change)
        self._http = httpx.Client(**self._target.options(), transport=transport)
        self._sleep = sleep

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        self._http.close()

    def send(self, call: Call[T]) -> T:
        """Perform a call. Repeat an idempotent one while the server is away or asks to wait."""
        for attempt in range(self._target.tries):
            try:
                return call.read(self._once(call))
            except MusterError as error:
                if attempt == self._target.tries - 1 or not worth_repeating(error, call):
                    raise
            self._sleep(pause(attempt))
        raise AssertionError("unreachable")

    def items(self, call: Callable[[str | None], Call[Page[T]]]) -> Iterator[T]:
        """Yield the items of a list, page by page. `call` asks for the page that begins at a cursor."""
        cursor: str | None = None
        while True:
            page = self.send(call(cursor))
            yield from page.items
            cursor = page.next
            if cursor is None:
                return

    def _once(self, call: Call[T]) -> bytes:
        with self._target.reaching():
            return content_of(self._http.request(**request_of(call)))

    def stream(self, stream: Stream[T]) -> Iterator[T]:
        """Yield the items of a stream, across lost connections, each once."""
        reading = StreamReader(stream)
        attempt = self._reconnects.attempt(tries=self._target.tries)
        while not reading.over:
            try:
                for item in self._connected(reading, attempt):
                    attempt.came()
                    yield item
            except (CannotReach, StoreUnavailable):
                if not attempt.failed():
                    raise
            if not reading.over:
                self._sleep(pause(attempt.number))

    def _connected(self, reading: StreamReader[T], attempt: StreamAttempt) -> Iterator[T]:
        asked = reading.stream
        with (
            self._target.reaching(),
            self._http.stream(
                "GET", asked.path, params=dict(asked.params), headers=reading.headers, timeout=STREAMING
            ) as response,
        ):
            self._check(response)
            reading.connected()
            attempt.connected()
            for line in response.iter_lines():
                yield from reading.line(line)
                if reading.over:
                    return

    def follow(self, command_id: str, *, offset: int = 0) -> Iterator[bytes]:
        """Yield a command's output from an offset to its end, across lost connections, each byte once."""
        attempt = self._reconnects.attempt(tries=self._target.tries)
        while True:
            try:
                for piece in self._output(command_id, offset, attempt):
                    offset += len(piece)
                    attempt.came()
                    yield piece
                # An end may also be the server's: only a command that has ended, with nothing left, is done.
                if self.send(calls.command(command_id)).ended:
                    if not self.send(calls.output(command_id, offset=offset)):
                        return
                    continue
            except (CannotReach, StoreUnavailable):
                if not attempt.failed():
                    raise
            self._sleep(pause(attempt.number))

    def _output(self, command_id: str, offset: int, attempt: StreamAttempt) -> Iterator[bytes]:
        params = {"offset": str(offset), "follow": "true"}
        path = calls.output_path(command_id)
        # Silence proves nothing: look whether it has ended, and go on.
        with (
            self._target.reaching(),
            suppress(httpx.ReadTimeout),
            self._http.stream("GET", path, params=params, timeout=STREAMING) as response,
        ):
            self._check(response)
            attempt.connected()
            yield from response.iter_raw()

    def upload(self, file: BinaryIO, *, tell: Callable[[int], None] = _unheard) -> Blob:
        """Send an archive for commands to start from. `tell` hears of each part that was sent."""

        def pieces() -> Iterator[bytes]:
            file.seek(0)
            while piece := file.read(_PIECE):
                yield piece
                tell(len(piece))

        with self._target.reaching():
            response = self._http.put(calls.BLOBS, content=pieces(), timeout=UPLOADING)
            return calls.read_blob(content_of(response))

    def download(self, command_id: str, path: Path, *, tell: Callable[[int], None] = _unheard) -> int:
        """Fetch what a command brought back into a file. Returns its size. `tell` hears of each part."""
        size = 0
        with (
            self._target.reaching(),
            self._http.stream("GET", calls.artifact_path(command_id), timeout=UPLOADING) as response,
        ):
            self._check(response)
            with path.open("wb") as file:
                for piece in response.iter_raw():
                    size += file.write(piece)
                    tell(len(piece))
        return size

    def terminal(self, command_id: str) -> "ClientConnection":
        """Connect to the terminal of a command. Raises CannotReach, or the server's refusal."""
        from muster.client.terminals import open_terminal  # noqa: PLC0415 — few commands need WebSockets

        return open_terminal(self._target, command_id)

    def _check(self, response: httpx.Response) -> None:
        if not response.is_success:
            response.read()
            content_of(response)
