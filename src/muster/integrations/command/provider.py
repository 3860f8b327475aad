"""The NodeProvider over an executable. Owns what Muster promises the core where the executable promises less.

An executable that isn't idempotent is never asked twice for one machine: each launch first lists the
machines of its names. One that makes one machine per call is called once per machine. Machines of other
names are ignored, whatever the executable says of them.
"""

import asyncio
import logging
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager

from muster.domain.errors import ProviderError, Refused, Throttled, Uncertain
from muster.domain.matching import type_matches
from muster.domain.reasons import Reason
from muster.domain.template import TemplateSpec, UsageClass
from muster.integrations.command.dialect import Dialect
from muster.integrations.command.executable import REASONS
from muster.integrations.command.machines import (
    MachineMaker,
    installation_prefix,
    launch_prefix,
    origin_of,
)
from muster.integrations.command.protocol import (
    AskedMachine,
    Feature,
    Hello,
    Launched,
    MachineSeen,
    Short,
)
from muster.integrations.command.tables import CommandConfig
from muster.ports.provider import LaunchAnswer, LaunchRequest, Machine, MachineState

logger = logging.getLogger(__name__)

VISIBILITY_WINDOW = 300.0
CALL_TIMEOUT = 60.0
"""What is assumed of an executable that didn't answer yet."""
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:/@-]{0,127}", re.ASCII)


class CommandProvider:
    """Implements muster.ports.provider.NodeProvider."""

    makes_way = frozenset({Reason.CAPACITY, Reason.QUOTA})

    def __init__(
        self, config: CommandConfig, dialect: Dialect, maker: MachineMaker, *, installation_id: str
    ) -> None:
        self.name = config.provider
        self._config = config
        self._dialect = dialect
        self._maker = maker
        self._installation_id = installation_id
        self.visibility_window = (
            VISIBILITY_WINDOW if config.visibility_window is None else config.visibility_window
        )
        self.call_timeout = config.call_timeout or CALL_TIMEOUT
        self._launching: dict[str, asyncio.Lock] = {}
        self._working: set[asyncio.Task[Launched]] = set()

    async def open(self) -> None:
        """Ask the executable what it can do. The log names a broken one. It is asked again when needed."""
        try:
            await self._greeted()
        except ProviderError as error:
            logger.warning("%s", error, extra={"provider": self.name})

    async def close(self) -> None:
        """Wait for the calls under way. Each has a time limit, and a launch begins no further one."""
        for work in self._working:
            work.cancel()
        await self._dialect.close()
        await asyncio.gather(*self._working, return_exceptions=True)

    def starts_with(self, template: TemplateSpec) -> str:
        return self._maker.starts_with(template)

    # --- the port ---------------------------------------------------------------------------------

    async def launch(self, request: LaunchRequest) -> LaunchAnswer:
        hello = await self._greeted()
        types = self._types(hello, request)
        if request.usage_class is UsageClass.SPOT and Feature.SPOT not in hello.features:
            raise Refused(f"cannot launch: {hello.name} has no spot machines", Reason.PROVIDER_REFUSED)
        machines = self._maker.machines(request)
        # To its end: an executable goes on when its caller gives up, and the repeat must not overtake it.
        work = asyncio.create_task(self._launched(request, machines, types, hello))
        self._working.add(work)
        work.add_done_callback(self._working.discard)
        return self._answer(request, await asyncio.shield(work), hello)

    async def find(self, token: str) -> Sequence[Machine]:
        prefix = launch_prefix(self._installation_id, token)
        hello = await self._greeted()
        found = [machine async for machine in self._listed(prefix, hello)]
        return [machine for machine in found if machine.token == token]

    async def list(self) -> AsyncIterator[Machine]:
        hello = await self._greeted()
        found = [each async for each in self._listed(installation_prefix(self._installation_id), hello)]
        for machine in sorted(found, key=lambda each: each.id):
            yield machine

    async def describe(self, machine_ids: Sequence[str]) -> Mapping[str, Machine]:
        asked = _possible(machine_ids)
        if not asked:
            return {}
        hello = await self._greeted()
        seen = (self._machine(each, hello) for each in await self._dialect.describe(asked))
        found = {machine.id: machine for machine in seen if machine is not None}
        return {each: found[each] for each in asked if each in found}

    async def console(self, machine_id: str, *, lines: int) -> str | None:
        hello = await self._greeted()
        if not _possible([machine_id]) or lines <= 0 or Feature.CONSOLE not in hello.features:
            return None
        text = await self._dialect.console(machine_id, lines)
        return "\n".join(text.splitlines()[-lines:]) if text else None

    async def terminate(self, machine_ids: Sequence[str]) -> None:
        # Only machines that are ours by name: an executable that lies about ids must not end another's.
        known = await self.describe(machine_ids)
        doomed = [each.id for each in known.values() if each.state is not MachineState.GONE]
        if doomed:
            await self._dialect.terminate(doomed)

    async def id_of(self, name: str, token: str) -> str | None:
        """Return the id of the machine of that name. The one with the smallest id, if there are several."""
        prefix = launch_prefix(self._installation_id, token)
        found = [each.id async for each in self._dialect.list(prefix) if each.name == name]
        return min(found, default=None)

    # --- launching --------------------------------------------------------------------------------

    async def _launched(
        self, request: LaunchRequest, machines: Sequence[AskedMachine], types: Sequence[str], hello: Hello
    ) -> Launched:
        async with self._alone(request.token):
            if Feature.IDEMPOTENT in hello.features and Feature.BATCH in hello.features:
                return await self._dialect.launch(request, machines, types)
            return await self._one_by_one(request, machines, types, hello)

    async def _one_by_one(
        self, request: LaunchRequest, machines: Sequence[AskedMachine], types: Sequence[str], hello: Hello
    ) -> Launched:
        there: dict[str, MachineSeen] = {}
        if Feature.IDEMPOTENT not in hello.features:
            prefix = launch_prefix(self._installation_id, request.token)
            async for seen in self._dialect.list(prefix):
                there.setdefault(seen.name, seen)
        made: list[MachineSeen] = []
        for machine in machines:
            if machine.name in there:
                made.append(there[machine.name])
                continue
            try:
                one = await self._dialect.launch(request, [machine], types)
            except (Refused, Throttled) as error:
                if not made:
                    raise
                reason = Short.CAPACITY if error.reason is Reason.CAPACITY else Short.ERROR
                return Launched(machines=made, reason=reason, message=str(error))
            made += one.machines
            if one.reason is not None:
                return Launched(machines=made, reason=one.reason, message=one.message)
        return Launched(machines=made)

    def _answer(self, request: LaunchRequest, launched: Launched, hello: Hello) -> LaunchAnswer:
        asked = launch_prefix(self._installation_id, request.token)
        for seen in launched.machines:
            if not seen.name.startswith(asked):
                raise Uncertain(
                    f"cannot launch: {hello.name} answered with machine {seen.name}, which was not asked for"
                )
        found = [self._machine(seen, hello, request) for seen in launched.machines]
        machines = tuple(machine for machine in found if machine is not None)
        if len({machine.id for machine in machines}) != len(machines):
            raise Uncertain(f"cannot launch: {hello.name} answered with one machine id twice")
        short = len(machines) < request.count
        if not short:
            return LaunchAnswer(machines=machines)
        reason = REASONS[launched.reason or Short.ERROR]
        message = launched.message or f"{hello.name} made {len(machines)} of {request.count} machines"
        if not machines and launched.reason is Short.REFUSED:
            raise Refused(f"cannot launch: {message}", reason)
        return LaunchAnswer(machines=machines, reason=reason, message=message)

    def _types(self, hello: Hello, request: LaunchRequest) -> Sequence[str]:
        size = request.resource_class.name
        fitting = [each.name for each in hello.types if each.resource_class == size]
        if hello.types and not fitting:
            message = f"cannot launch: {hello.name} has no type for the class {size}"
            raise Refused(message, Reason.PROVIDER_REFUSED)
        shown = [_shown_type(self.name, name, size) for name in fitting or [""]]
        allowed = [
            name
            for name, whole in zip(fitting or [""], shown, strict=True)
            if type_matches(whole, request.instance_types)
        ]
        if not allowed:
            patterns = " ".join(request.instance_types)
            message = f"cannot launch: none of {', '.join(shown)} matches {patterns}"
            raise Refused(message, Reason.PROVIDER_REFUSED)
        return [name for name in allowed if name]

    @asynccontextmanager
    async def _alone(self, token: str) -> AsyncIterator[None]:
        """One launch of a token at a time: the second finds what the first made."""
        lock = self._launching.setdefault(token, asyncio.Lock())
        try:
            async with lock:
                yield
        finally:
            if not lock.locked():
                self._launching.pop(token, None)

    # --- looking ----------------------------------------------------------------------------------

    async def _listed(self, prefix: str, hello: Hello) -> AsyncIterator[Machine]:
        async for seen in self._dialect.list(prefix):
            machine = self._machine(seen, hello) if seen.name.startswith(prefix) else None
            if machine is not None and machine.state is not MachineState.GONE:
                yield machine

    def _machine(self, seen: MachineSeen, hello: Hello, asked: LaunchRequest | None = None) -> Machine | None:
        origin = origin_of(seen.name)
        if origin is None or origin.installation_id != self._installation_id:
            return None
        size = next((each.resource_class for each in hello.types if each.name == seen.type), "")
        if asked is not None:
            size = asked.resource_class.name
        return Machine(
            id=seen.id,
            installation_id=self._installation_id,
            token=origin.token,
            instance_type=_shown_type(self.name, seen.type, size),
            usage_class=asked.usage_class if asked is not None else UsageClass(seen.usage),
            state=MachineState(seen.state),
            why=seen.why,
        )

    async def _greeted(self) -> Hello:
        hello = await self._dialect.hello()
        if self._config.visibility_window is None:
            self.visibility_window = hello.visibility_window
        self.call_timeout = self._config.call_timeout or hello.call_timeout
        return hello


def _shown_type(provider: str, name: str, size: str) -> str:
    """Return the type as patterns see it: `cx22.small`, or `command-rack.small` without types."""
    word = name or provider
    return word if not size or word.endswith(f".{size}") else f"{word}.{size}"


def _possible(machine_ids: Sequence[str]) -> list[str]:
    return [each for each in dict.fromkeys(machine_ids) if _ID.fullmatch(each)]
