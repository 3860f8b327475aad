"""One call of an executable: a request on its standard input, an answer on its standard output.

Owns the limits of a call: time, size, and how many run at once. A call that its caller gave up goes on to its own
end, as a cloud's would. Refuses to interpret anything: the dialects do.
"""

import asyncio
import os
import signal
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

ANSWER_MOST = 4 << 20
"""Bytes of standard output. A list of 10,000 machines has about 2 MiB."""
ERROR_MOST = 4096
"""Bytes of standard error that are kept: its end."""
END_GRACE = 5.0
"""Seconds between SIGTERM and SIGKILL."""
OUTPUT_GRACE = 1.0
"""Seconds for the output of a process that has ended. A child may still hold the pipe open."""
_CHUNK = 65536


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What became of one call."""

    status: int | None
    """The exit status; negative: the signal. None: the call was ended at its time limit."""
    output: bytes
    errors: str
    """The end of what it wrote to standard error."""
    too_long: bool = False
    """Whether the output was longer than ANSWER_MOST."""


class NotStarted(Exception):
    """The executable can't be started: nothing was asked of it."""


class Caller:
    """Calls one executable."""

    def __init__(self, argv: Sequence[str], *, environment: Mapping[str, str], at_once: int) -> None:
        self._argv = tuple(argv)
        self._environment = dict(environment)
        self._places = asyncio.Semaphore(at_once)
        self._running: set[asyncio.Task[Result]] = set()

    async def call(
        self,
        *arguments: str,
        given: bytes = b"",
        seconds: float,
        environment: Mapping[str, str] | None = None,
    ) -> Result:
        """Run the executable once. Raises NotStarted.

        The process is not ended when the caller is cancelled, only at its time limit.
        """
        work = asyncio.create_task(self._placed([*self._argv, *arguments], given, seconds, environment or {}))
        self._running.add(work)
        work.add_done_callback(self._running.discard)
        return await asyncio.shield(work)

    async def close(self) -> None:
        """Wait for the calls under way. Each has a time limit."""
        if self._running:
            await asyncio.wait(tuple(self._running))

    async def _placed(
        self, argv: Sequence[str], given: bytes, seconds: float, environment: Mapping[str, str]
    ) -> Result:
        async with self._places:
            return await _run(argv, given, seconds, {**self._environment, **environment})


async def _run(argv: Sequence[str], given: bytes, seconds: float, environment: Mapping[str, str]) -> Result:
    try:
        process = await asyncio.create_subprocess_exec(
            *argv,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=environment,
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        raise NotStarted(str(error)) from error
    assert process.stdin is not None and process.stdout is not None and process.stderr is not None
    output, errors = _Kept(ANSWER_MOST), _Kept(ERROR_MOST)
    readers = [
        asyncio.create_task(output.read_head(process.stdout)),
        asyncio.create_task(errors.read_tail(process.stderr)),
        asyncio.create_task(_write(process.stdin, given)),
    ]
    try:
        status = await _ended(process, seconds)
        await asyncio.wait(readers, timeout=OUTPUT_GRACE)
    finally:
        _signal_group(process.pid, signal.SIGKILL)
        for reader in readers:
            reader.cancel()
        await asyncio.gather(*readers, return_exceptions=True)
    words = bytes(errors.data).decode(errors="replace").strip()
    return Result(status=status, output=bytes(output.data), errors=words, too_long=output.cut)


async def _ended(process: asyncio.subprocess.Process, seconds: float) -> int | None:
    try:
        async with asyncio.timeout(seconds):
            return await process.wait()
    except TimeoutError:
        _signal_group(process.pid, signal.SIGTERM)
    try:
        async with asyncio.timeout(END_GRACE):
            await process.wait()
    except TimeoutError:
        _signal_group(process.pid, signal.SIGKILL)
        await process.wait()
    return None


def _signal_group(pid: int, number: signal.Signals) -> None:
    """Signal the process and its children. The group lives as long as one of them does."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, number)


async def _write(pipe: asyncio.StreamWriter, given: bytes) -> None:
    # An executable that needs no request may end before it has read it.
    with suppress(BrokenPipeError, ConnectionResetError):
        pipe.write(given)
        await pipe.drain()
    pipe.close()


class _Kept:
    """A bounded part of what a pipe says. The pipe is read to its end, so that no writer blocks."""

    def __init__(self, most: int) -> None:
        self.data = bytearray()
        self.cut = False
        self._most = most

    async def read_head(self, pipe: asyncio.StreamReader) -> None:
        while chunk := await pipe.read(_CHUNK):
            room = self._most - len(self.data)
            self.cut = self.cut or len(chunk) > room
            self.data += chunk[: max(room, 0)]

    async def read_tail(self, pipe: asyncio.StreamReader) -> None:
        while chunk := await pipe.read(_CHUNK):
            self.data += chunk
            del self.data[: max(len(self.data) - self._most, 0)]
