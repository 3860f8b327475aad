"""One ssh session to one host, which answers requests for as long as it lasts.

A request is one line, its answer another one. Answers are matched by number. If the session ends, what was
asked and not answered is lost: it may have happened, or not.
"""

import asyncio
import json
import re
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, cast

from muster.integrations.ssh import bundle

_NO_PROGRAM = 127
_CHANGED = re.compile(r"[Hh]ost key for (\S+) has changed|IDENTIFICATION HAS CHANGED")
_UNKNOWN = re.compile(r"host key is known for (\S+) and you have requested strict")


def explained(host: str, said: str, code: int | None) -> str:
    """`said` is what ssh wrote to standard error, `code` how it ended; None: it hung."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    last = lines[-1] if lines else ""
    changed = [each.group(1) for each in _CHANGED.finditer(said)]
    if changed:
        name = next(filter(None, changed), host)
        return (
            f"the host key of {name} has changed. If you changed it, accept it with"
            f" `muster hosts trust {name}`. If not, another machine may pretend to be it"
        )
    unknown = _UNKNOWN.search(said)
    if unknown or "Host key verification failed" in said:
        name = unknown.group(1).strip("[]") if unknown else host
        return f"the host key of {name} is not known: compare and accept it with `muster hosts trust {name}`"
    if "Permission denied" in said:
        return f"it refused the key ({last}): check user and key of [hosts.{host}], and its authorized_keys"
    if bundle.LEAST_PYTHON in said:
        return f"{last.removeprefix('muster: ')}: set python under [hosts.{host}]"
    if code == _NO_PROGRAM:
        return f"it can't start Python ({last}): install 3.8 or later, or set python of [hosts.{host}]"
    if code is None and not last:
        return "no answer in time"
    return last or f"ssh ended with {code} and said nothing"


LINE_MOST = 16 << 20
NOISE_MOST = 1 << 20
"""Bytes that a login shell may write before the first answer."""
WORDS_MOST = 16 << 10
PARTING = 1.0
"""Seconds that ssh has to end by itself, or to say its last words."""
OUT, WORDS = 1, 2


class NotOpened(Exception):
    """There is no session, and nothing was asked."""


class Lost(Exception):
    """The session ended before the answer came."""


class Refused(Exception):
    """The host's own program refused the request."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


class Session(asyncio.SubprocessProtocol):
    """The process of ssh, seen from its pipes. Pipes may outlive it: its master may hold them."""

    def __init__(self) -> None:
        self._transport: asyncio.SubprocessTransport
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._count = 0
        self._rest = b""
        self._noise = 0
        self._words = b""
        self._ended = asyncio.Event()
        self._quiet = asyncio.Event()
        """All words were heard."""
        self._over = ""
        """Why nothing can be asked any more."""
        self.stuck = False
        """Whether a request went without an answer: the line may be dead."""
        self.boot_id = ""

    @classmethod
    async def open(cls, host: str, argv: Sequence[str], *, within: float, **hello: str) -> "Session":
        """Start ssh and the host's program. Raises NotOpened."""
        loop = asyncio.get_running_loop()
        try:
            _, session = await loop.subprocess_exec(
                cls, *argv, stdin=PIPE, stdout=PIPE, stderr=PIPE, start_new_session=True
            )
        except OSError as error:
            raise NotOpened(f"cannot start ssh: {error}") from error
        session._write(bundle.program().encode())
        try:
            session.boot_id = (await session.ask("hello", within=within, **hello))["boot_id"]
        except Lost as error:
            code = await session._exit_code()
            raise NotOpened(explained(host, session.words, code)) from error
        except Refused as error:
            raise NotOpened(f"its program failed: {error}") from error
        finally:
            if not session.boot_id:
                await session.close()
        return session

    @property
    def words(self) -> str:
        """What ssh wrote to standard error, the end of it."""
        return self._words.decode("utf-8", "replace")

    @property
    def usable(self) -> bool:
        return not self._over

    async def ask(self, verb: str, *, within: float, **fields: Any) -> Any:
        """Raises Lost or Refused."""
        if self._over:
            raise Lost(self._over)
        number, self._count = self._count, self._count + 1
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._waiting[number] = answer
        self._write(json.dumps({"n": number, "verb": verb, **fields}).encode())
        try:
            async with asyncio.timeout(within):
                return await answer
        except TimeoutError as error:
            # A link that is cut looks like this: nothing that is asked on it will be answered.
            self.stuck = True
            await self.close()
            raise Lost(f"no answer to {verb} within {within:g} s") from error
        finally:
            self._waiting.pop(number, None)

    async def close(self) -> None:
        """End ssh and with it the host's program: its input ends, and if that isn't enough, it is killed."""
        self._fail("the session was closed")
        if self._transport.get_returncode() is None:
            with suppress(AttributeError):
                self._pipe().close()
            with suppress(TimeoutError):
                async with asyncio.timeout(0.1 if self.stuck else PARTING):
                    await self._ended.wait()
        self._transport.close()

    async def _exit_code(self) -> int | None:
        """How ssh ended, when it has said its last words; None if it didn't."""
        with suppress(TimeoutError):
            async with asyncio.timeout(PARTING):
                await self._ended.wait()
                # An old ssh leaves the pipe of its words to its master, which stays.
                await self._quiet.wait()
        return self._transport.get_returncode()

    def _write(self, line: bytes) -> None:
        self._pipe().write(line + b"\n")

    def _pipe(self) -> asyncio.WriteTransport:
        return cast("asyncio.WriteTransport", self._transport.get_pipe_transport(0))

    # --- what the loop tells ----------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.SubprocessTransport", transport)

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        if fd == WORDS:
            self._words = (self._words + data)[-WORDS_MOST:]
            return
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            self._take(line)
        if len(self._rest) > LINE_MOST:
            self._break("the host wrote a line without an end")

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:
        if fd == WORDS:
            self._quiet.set()
        elif fd == OUT:
            self._fail("the session ended")

    def process_exited(self) -> None:
        self._ended.set()
        self._fail("the session ended")

    # --- answers ----------------------------------------------------------------------------------

    def _take(self, line: bytes) -> None:
        if self._over:
            return
        try:
            said = json.loads(line)
            answer = self._waiting.get(said["n"])
            told = Refused(said["error"], said["message"]) if "error" in said else said["answer"]
        except (ValueError, TypeError, KeyError):
            self._pass_over(line)
            return
        if answer is None or answer.done():
            return  # its caller didn't wait
        if isinstance(told, Refused):
            answer.set_exception(told)
        else:
            answer.set_result(told)

    def _pass_over(self, line: bytes) -> None:
        """Before the first answer, a login shell may say what it likes, up to a bound."""
        self._noise += len(line) + 1
        if self.boot_id:
            self._break(f"the host wrote what is no answer ({line[:60]!r})")
        elif self._noise > NOISE_MOST:
            self._break("its shell writes without an end")

    def _break(self, why: str) -> None:
        self._words += f"\n{why}".encode()
        self._fail(why)
        self._transport.close()

    def _fail(self, why: str) -> None:
        self._over = self._over or why
        last = self.words.strip().rpartition("\n")[2]
        words = self._over if not last or last in self._over else f"{self._over}: {last}"
        for answer in self._waiting.values():
            if not answer.done():
                answer.set_exception(Lost(words))


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
