"""One ssh session to one host, which answers requests for as long as it lasts.

A request is one line, its answer another one. Answers are matched by number. If the session ends, what was
asked and not answered is lost: it may have happened, or not.
"""

import asyncio
import json
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from muster.integrations.ssh import bundle
from muster.integrations.ssh.failures import explained

LINE_MOST = 16 << 20
NOISE_MOST = 1000
"""Lines that a login shell may write before the first answer."""
WORDS_MOST = 16 << 10
PARTING = 1.0


class NotOpened(Exception):
    """There is no session, and nothing was asked."""


class Lost(Exception):
    """The session ended before the answer came."""


class Refused(Exception):
    """The host's own program refused the request."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


class Session:
    def __init__(self, host: str, process: Process) -> None:
        self._host = host
        self._process = process
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._count = 0
        self._words = b""
        self._listening = asyncio.create_task(self._hear_words())
        self._reading: asyncio.Task[None] | None = None
        self.boot_id = ""

    @classmethod
    async def open(cls, host: str, argv: Sequence[str], *, within: float, **hello: str) -> "Session":
        """Start ssh and the host's program. Raises NotOpened."""
        try:
            process = await asyncio.create_subprocess_exec(
                *argv, stdin=PIPE, stdout=PIPE, stderr=PIPE, limit=LINE_MOST, start_new_session=True
            )
        except OSError as error:
            raise NotOpened(f"cannot start ssh: {error}") from error
        session = cls(host, process)
        try:
            async with asyncio.timeout(within):
                await session._greet(hello)
        except BaseException as error:
            code = None if isinstance(error, TimeoutError) else await session._ended()
            await session.close()
            if isinstance(error, TimeoutError | OSError | ValueError | EOFError):
                raise NotOpened(explained(host, session.words, code)) from error
            raise
        return session

    @property
    def words(self) -> str:
        return self._words.decode("utf-8", "replace")

    @property
    def open_(self) -> bool:
        return self._reading is not None and not self._reading.done()

    async def ask(self, verb: str, *, within: float, **fields: Any) -> Any:
        """Raises Lost or Refused."""
        if not self.open_:
            raise Lost("the session has ended")
        self._count += 1
        number = self._count
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._waiting[number] = answer
        try:
            async with asyncio.timeout(within):
                await self._say({"n": number, "verb": verb, **fields})
                return await answer
        except TimeoutError as error:
            # A link that is cut looks like this: nothing that is asked on it will be answered.
            await self.close()
            raise Lost(f"no answer to {verb} within {within:g} s") from error
        except OSError as error:
            raise Lost(f"the session ended ({error})") from error
        finally:
            self._waiting.pop(number, None)

    async def close(self) -> None:
        """End ssh and with it the host's program, as if the line were cut."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        if self._process.returncode is None:
            with suppress(ProcessLookupError):
                self._process.terminate()
        await self._ended()
        for task in (self._listening, self._reading):
            if task is not None and not task.done():
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await task
        self._fail("the session was closed")

    async def _ended(self) -> int | None:
        try:
            async with asyncio.timeout(PARTING):
                code = await self._process.wait()
                # An old ssh leaves its words' pipe to its master, which stays.
                await asyncio.wait([self._listening], timeout=PARTING)
                return code
        except TimeoutError:
            with suppress(ProcessLookupError):
                self._process.kill()
            return self._process.returncode

    # --- lines ------------------------------------------------------------------------------------

    async def _greet(self, hello: dict[str, str]) -> None:
        assert self._process.stdin is not None and self._process.stdout is not None  # noqa: S101  # pipes
        self._process.stdin.write(bundle.program().encode() + b"\n")
        await self._say({"n": 0, "verb": "hello", **hello})
        for _ in range(NOISE_MOST):
            line = await self._process.stdout.readline()
            if not line:
                raise EOFError
            with suppress(ValueError, TypeError, KeyError):
                self.boot_id = json.loads(line)["answer"]["boot_id"]
                self._reading = asyncio.create_task(self._read())
                return
        raise ValueError("its shell writes without an end")

    async def _say(self, request: dict[str, Any]) -> None:
        assert self._process.stdin is not None  # noqa: S101  # a pipe
        self._process.stdin.write(json.dumps(request).encode() + b"\n")
        await self._process.stdin.drain()

    async def _read(self) -> None:
        assert self._process.stdout is not None  # noqa: S101  # a pipe
        why = "the session ended"
        try:
            while line := await self._process.stdout.readline():
                self._take(json.loads(line))
        except (ValueError, TypeError, KeyError) as error:
            why = f"the host wrote what is no answer ({error})"
        except OSError as error:
            why = f"the session ended ({error})"
        self._fail(why)

    def _take(self, said: dict[str, Any]) -> None:
        answer = self._waiting.get(said["n"])
        if answer is None or answer.done():
            return  # its caller didn't wait
        if "error" in said:
            answer.set_exception(Refused(said["error"], said["message"]))
        else:
            answer.set_result(said["answer"])

    def _fail(self, why: str) -> None:
        last = self.words.strip().rpartition("\n")[2]
        for answer in self._waiting.values():
            if not answer.done():
                answer.set_exception(Lost(f"{why}{f': {last}' if last else ''}"))

    async def _hear_words(self) -> None:
        assert self._process.stderr is not None  # noqa: S101  # a pipe
        while data := await self._process.stderr.read(WORDS_MOST):
            self._words = (self._words + data)[-WORDS_MOST:]


async def run(argv: Sequence[str], *, within: float) -> tuple[int | None, str, str]:
    """A short command to its end: exit status (None: it hung), and what it wrote to both outputs."""
    process = await asyncio.create_subprocess_exec(
        *argv, stdin=DEVNULL, stdout=PIPE, stderr=PIPE, start_new_session=True
    )
    try:
        async with asyncio.timeout(within):
            out, words = await process.communicate()
    except TimeoutError:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()
        return None, "", ""
    return process.returncode, out.decode("utf-8", "replace"), words.decode("utf-8", "replace")
