"""One call of an executable: a request on its standard input, an answer on its standard output.

Owns the limits of a call: time, size, and how many run at once. A call that its caller gave up goes on to
its own end, as a cloud's would. Refuses to interpret anything: the dialects do.
"""

import asyncio
import os
import signal
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

ANSWER_MOST = 4 << 20
"""Bytes of standard output. A list of 10,000 machines has about 2 MiB."""
ERROR_MOST = 4096
"""Bytes of standard error that are kept: its end."""
END_GRACE = 5.0
"""Seconds between SIGTERM and SIGKILL."""
OUTPUT_GRACE = 1.0
"""Seconds for the output of a process that has ended. A child may still hold the pipe open."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What became of one call."""

    status: int | None
    """The exit status; negative: the signal. None: Muster ended the call at its time limit."""
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
    loop = asyncio.get_running_loop()
    try:
        transport, process = await loop.subprocess_exec(
            _Process, *argv, env=environment, start_new_session=True
        )
    except (OSError, ValueError) as error:
        raise NotStarted(str(error)) from error
    try:
        request: Any = transport.get_pipe_transport(0)
        request.write(given)
        request.close()  # once all of it is written
        in_time = await _ended(process, transport.get_pid(), seconds)
        await asyncio.wait([process.silent], timeout=OUTPUT_GRACE)
    finally:
        _signal_group(transport.get_pid(), signal.SIGKILL)
        transport.close()
    return Result(
        status=transport.get_returncode() if in_time else None,
        output=bytes(process.output),
        errors=bytes(process.errors).decode(errors="replace").strip(),
        too_long=process.too_long,
    )


async def _ended(process: "_Process", pid: int, seconds: float) -> bool:
    """Wait for the end of the process, and bring it about when its time is over."""
    limits = ((seconds, signal.SIGTERM), (END_GRACE, signal.SIGKILL))
    for limit, then in limits:
        await asyncio.wait([process.ended], timeout=limit)
        if process.ended.done():
            return then is signal.SIGTERM
        _signal_group(pid, then)
    await process.ended
    return False


def _signal_group(pid: int, number: signal.Signals) -> None:
    """Signal the process and its children. The group lives as long as one of them does."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, number)


class _Process(asyncio.SubprocessProtocol):
    """What a process says. Its pipes are read to their end, so that it never blocks; a part is kept."""

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        self.output, self.errors = bytearray(), bytearray()
        self.too_long = False
        self.ended: asyncio.Future[None] = loop.create_future()
        self.silent: asyncio.Future[None] = loop.create_future()
        """Done when no process holds the pipes any more."""

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        if fd == 1:
            room = ANSWER_MOST - len(self.output)
            self.too_long = self.too_long or len(data) > room
            self.output += data[:room]
        else:
            self.errors += data
            del self.errors[: max(len(self.errors) - ERROR_MOST, 0)]

    def process_exited(self) -> None:
        self.ended.set_result(None)

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.silent.done():
            self.silent.set_result(None)
