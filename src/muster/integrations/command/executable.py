"""Muster's own protocol: one process per verb, a JSON object in, a JSON object out.

Owns what an executable's answers mean. Nothing was done only if the executable says so, or was not started.
Everything else that isn't an answer is Uncertain: a signal, another exit status, no JSON, too much of it.
"""

import hashlib
import json
from collections.abc import AsyncIterator, Sequence
from typing import Any, TypeVar

import msgspec

from muster.domain.errors import ProviderError, Refused, Throttled, TokenSpent, Uncertain
from muster.domain.reasons import Reason
from muster.domain.redaction import redact
from muster.domain.serialization import to_plain
from muster.integrations.command import protocol
from muster.integrations.command.calls import ANSWER_MOST, Caller, NotStarted, Result
from muster.integrations.command.machines import launch_prefix
from muster.integrations.command.protocol import (
    PROTOCOL,
    AskedMachine,
    ErrorClass,
    Failure,
    Hello,
    Launched,
    MachineSeen,
    Shape,
    Short,
    Verb,
)
from muster.integrations.command.tables import TEMPLATE, CommandConfig
from muster.ports.provider import LaunchRequest

AGAIN = 10.0
"""Seconds until an executable that can't be started is tried again."""
HELLO_SECONDS = 10.0
IDS_MOST = 500
"""Ids in one call."""
PAGES_MOST = 1000
REASONS = {
    Short.CAPACITY: Reason.CAPACITY,
    Short.QUOTA: Reason.QUOTA,
    Short.THROTTLED: Reason.PROVIDER_ERROR,
    Short.REFUSED: Reason.PROVIDER_REFUSED,
    Short.ERROR: Reason.PROVIDER_ERROR,
}
S = TypeVar("S", bound=Shape)


class Executable:
    """Implements muster.integrations.command.dialect.Dialect."""

    def __init__(self, config: CommandConfig, caller: Caller, *, installation_id: str) -> None:
        self._config = config
        self._caller = caller
        self._installation_id = installation_id
        self._known: tuple[tuple[int, int], Hello] | None = None
        """What it answered, and the time and size of the file that did."""

    async def hello(self) -> Hello:
        version = self._version()
        if self._known is None or self._known[0] != version:
            answer = await self._ask(Verb.HELLO, protocol.Hello, HELLO_SECONDS)
            if PROTOCOL not in answer.protocols:
                spoken = ", ".join(map(str, answer.protocols)) or "none"
                raise Refused(
                    f"cannot use {self._config.executable}: it speaks protocol {spoken}, and this server"
                    f" {PROTOCOL}; install a version of it that fits",
                    Reason.PROVIDER_REFUSED,
                )
            self._known = version, answer
        return self._known[1]

    async def launch(
        self, request: LaunchRequest, machines: Sequence[AskedMachine], types: Sequence[str]
    ) -> Launched:
        size = request.resource_class
        given = {
            "launch": launch_prefix(request.installation_id, request.token),
            "template": protocol.AskedTemplate(
                name=request.template.name,
                revision=request.revision,
                settings=TEMPLATE.of(request.template).settings,
            ),
            "resource_class": protocol.AskedClass(name=size.name, cpu=size.cpu, memory_mib=size.memory_mib),
            "usage": protocol.Usage(request.usage_class),
            "types": tuple(types),
        }
        named = {**msgspec.to_builtins(given), "names": [machine.name for machine in machines]}
        fingerprint = hashlib.sha256(json.dumps(to_plain(named), sort_keys=True).encode()).hexdigest()
        return await self._ask(
            Verb.LAUNCH, Launched, None, **given, fingerprint=fingerprint, machines=tuple(machines)
        )

    async def list(self, prefix: str) -> AsyncIterator[MachineSeen]:
        cursor: str | None = None
        for _ in range(PAGES_MOST):
            page = await self._ask(Verb.LIST, protocol.Machines, None, prefix=prefix, cursor=cursor)
            for machine in page.machines:
                yield machine
            if page.cursor is None:
                return
            if page.cursor == cursor:
                raise Uncertain(f"cannot list machines: {self._config.executable} gave one cursor twice")
            cursor = page.cursor
        raise Uncertain(f"cannot list machines: {self._config.executable} gave more than {PAGES_MOST} pages")

    async def describe(self, ids: Sequence[str]) -> Sequence[MachineSeen]:
        found: list[MachineSeen] = []
        for batch in _batches(ids):
            found += (await self._ask(Verb.DESCRIBE, protocol.Machines, None, ids=batch)).machines
        return found

    async def console(self, machine_id: str, lines: int) -> str | None:
        return (await self._ask(Verb.CONSOLE, protocol.ConsoleText, None, id=machine_id, lines=lines)).text

    async def terminate(self, ids: Sequence[str]) -> None:
        for batch in _batches(ids):
            await self._ask(Verb.TERMINATE, protocol.Done, None, ids=batch)

    async def close(self) -> None:
        await self._caller.close()

    # --- one call ---------------------------------------------------------------------------------

    async def _ask(self, verb: Verb, answer: type[S], seconds: float | None, **given: Any) -> S:
        if seconds is None:
            seconds = self._config.call_timeout or (await self.hello()).call_timeout
        request = protocol.REQUESTS[verb](
            installation=self._installation_id, timeout_seconds=seconds, config=self._config.config, **given
        )
        try:
            result = await self._caller.call(verb, given=msgspec.json.encode(request), seconds=seconds)
        except NotStarted as error:
            raise Throttled(f"cannot run {self._config.executable}: {error}", AGAIN) from error
        return self._read(verb, result, answer, seconds)

    def _read(self, verb: Verb, result: Result, answer: type[S], seconds: float) -> S:
        if result.status in (protocol.BAD_REQUEST, protocol.BAD_CONFIG):
            what = "request" if result.status == protocol.BAD_REQUEST else "configuration"
            message = self._told(verb, f"it refused the {what} (exit status {result.status})", result)
            raise Refused(message, Reason.PROVIDER_REFUSED)
        if result.status is None:
            raise Uncertain(self._told(verb, f"it did not end within {seconds:.0f} s", result))
        if result.status:
            raise Uncertain(self._told(verb, f"it ended with {_status(result.status)}", result))
        if result.too_long:
            raise Uncertain(self._told(verb, f"its answer has more than {ANSWER_MOST} bytes", result))
        try:
            failed = msgspec.json.decode(result.output, type=protocol.Failed).error
            if failed is not None:
                raise self._failure(verb, failed)
            return msgspec.json.decode(result.output, type=answer)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise Uncertain(self._told(verb, f"its answer can't be read: {error}", result)) from error

    def _failure(self, verb: Verb, failure: Failure) -> ProviderError:
        message = f"cannot {verb}: {self._config.executable.name} says: {redact(failure.message)}"
        if failure.error_class is ErrorClass.THROTTLED:
            return Throttled(message, failure.retry_after)
        if failure.error_class is ErrorClass.REFUSED:
            return Refused(message, REASONS[failure.reason])
        if failure.error_class is ErrorClass.LAUNCH_SPENT and verb is Verb.LAUNCH:
            return TokenSpent(message)
        return Uncertain(message)

    def _told(self, verb: Verb, fact: str, result: Result) -> str:
        return told(f"cannot {verb}: {self._config.executable}: {fact}", result)

    def _version(self) -> tuple[int, int]:
        try:
            found = self._config.executable.stat()
        except OSError as error:
            raise Throttled(f"cannot run {self._config.executable}: {error.strerror}", AGAIN) from error
        return found.st_mtime_ns, found.st_size


def told(fact: str, result: Result) -> str:
    """Return the fact with the last line that the executable wrote for people."""
    last = redact(result.errors).strip().rpartition("\n")[2]
    return f"{fact}: {last[:500]}" if last else fact


def _status(status: int) -> str:
    return f"signal {-status}" if status < 0 else f"exit status {status}"


def _batches(ids: Sequence[str]) -> Sequence[Sequence[str]]:
    return [tuple(ids[start : start + IDS_MOST]) for start in range(0, len(ids), IDS_MOST)]
