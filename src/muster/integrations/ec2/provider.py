"""The NodeProvider of EC2. Owns the verbs, and what AWS's errors mean for each; nothing it remembers matters.

A call that was given up may still be carried out; that is what launch rows are for.
"""

import re
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from typing import Any

import muster.agent
from muster.domain.errors import ProviderError, Refused
from muster.domain.reasons import Reason
from muster.domain.template import TemplateSpec, UsageClass
from muster.integrations.ec2 import errors, fleet, launch_templates, user_data
from muster.integrations.ec2.api import Aws
from muster.integrations.ec2.describer import Describer, launched_machines
from muster.integrations.ec2.errors import (
    NO_LAUNCH_TEMPLATE,
    UNKNOWN_MACHINE,
    AwsError,
    NoAnswer,
    NotAsked,
)
from muster.integrations.ec2.interruptions import Interruptions, spared
from muster.integrations.ec2.launch_templates import Content, LaunchTemplates
from muster.integrations.ec2.placement import Placements
from muster.integrations.ec2.sizes import Fit, Sizes
from muster.integrations.ec2.tables import EC2, TEMPLATE, Ec2Settings, Ec2Spec
from muster.ports.clock import Clock
from muster.ports.ids import Ids
from muster.ports.provider import LaunchAnswer, LaunchRequest, Machine, MachineState

_ID = re.compile(r"i-[0-9a-f]{8,17}", re.ASCII)
BATCH = 500
ANSWERED_MOST = 1000
_Meaning = Callable[[AwsError | NoAnswer | NotAsked], ProviderError]


class Ec2Provider:
    """Implements muster.ports.provider.NodeProvider."""

    name = EC2

    def __init__(self, settings: Ec2Settings, clock: Clock, ids: Ids, *, aws: Aws | None = None) -> None:
        self.visibility_window = settings.visibility_window
        self.call_timeout = settings.call_timeout
        # A quota is the account's. What a zone lacks of one type, the end of another machine seldom gives.
        self.makes_way = frozenset({Reason.QUOTA})
        self._settings = settings
        self.aws = aws or Aws(settings, clock, ids)
        self._survey = Placements(self.aws)
        self._sizes = Sizes(self.aws)
        self._templates = LaunchTemplates(self.aws)
        self._describer = Describer(self.aws)
        self._interruptions = Interruptions(self.aws, clock, installation_id=settings.installation_id)
        self._spared: dict[str, Mapping[str, tuple[str, ...]]] = {}
        """By token: the types that each subnet of a launch was asked for."""
        self._answered: dict[str, bool] = {}
        """Tokens that were answered before: machines of a repeated answer may have ended since."""

    async def open(self) -> None:
        """Load what is slow to load, before a caller waits for it."""
        await self.aws.open()

    async def close(self) -> None:
        await self._describer.close()
        await self.aws.close()

    # --- the port ---------------------------------------------------------------------------------

    async def launch(self, request: LaunchRequest) -> LaunchAnswer:
        spec = spec_of(request.template)
        with _meaning(errors.preparation_error):
            content = await self._content(request, spec)
            fit = await self._sizes.fit(request, spec)
            version = await self._templates.version(content)
            left = await self._avoiding(request, spec, fit)
        asked = fleet.request(
            request,
            spec,
            launch_template=content.name,
            version=version,
            cpu_most=fit.cpu_most,
            spared=left,
        )
        with _meaning(errors.launch_error):
            answer = await self._create(asked, content)
        machines = tuple(launched_machines(answer, request))
        reason, message = errors.fleet_errors(answer.get("Errors", ()))
        if len(machines) >= request.count:
            reason, message = None, ""
        if not machines and reason is Reason.PROVIDER_REFUSED:
            raise Refused(f"EC2 refused: {message}", reason)
        return LaunchAnswer(
            machines=await self._as_they_are(request.token, machines), reason=reason, message=message
        )

    async def find(self, token: str) -> Sequence[Machine]:
        with _meaning(errors.look_error):
            return await self._describer.of_launch(token)

    async def list(self) -> AsyncIterator[Machine]:
        with _meaning(errors.look_error):
            async for machine in self._describer.all(self._settings.installation_id):
                yield machine

    async def describe(self, machine_ids: Sequence[str]) -> Mapping[str, Machine]:
        with _meaning(errors.look_error):
            return await self._describer.of_ids(_possible(machine_ids))

    async def console(self, machine_id: str, *, lines: int) -> str | None:
        if not _possible([machine_id]) or lines <= 0:
            return None
        with _meaning(errors.look_error):
            try:
                answer = await self.aws.hear("get_console_output", InstanceId=machine_id, Latest=True)
            except AwsError as error:
                if error.code in UNKNOWN_MACHINE:
                    return None
                if error.code != "UnsupportedOperation":
                    raise
                # Older types keep only what they wrote while they started.
                answer = await self.aws.hear("get_console_output", InstanceId=machine_id)
        said = str(answer.get("Output") or "")  # the SDK has decoded it
        return "\n".join(said.splitlines()[-lines:]) if said else None

    async def terminate(self, machine_ids: Sequence[str]) -> None:
        possible = _possible(machine_ids)
        refused: dict[str, AwsError] = {}
        with _meaning(errors.look_error):
            for start in range(0, len(possible), BATCH):
                refused.update(await self._end(possible[start : start + BATCH]))
            await self._check_refused(refused)

    def starts_with(self, template: TemplateSpec) -> str:
        """Return the program that each machine of the template is given."""
        dead_man = self._settings.dead_man(template)
        return user_data.script(agent(), servers=self._settings.servers, dead_man=dead_man)

    # --- behind it --------------------------------------------------------------------------------

    async def _content(self, request: LaunchRequest, spec: Ec2Spec) -> Content:
        place = await self._survey.place(spec)
        script = self.starts_with(request.template)
        return launch_templates.content(request, spec, script=script, place=place)

    async def _avoiding(
        self, request: LaunchRequest, spec: Ec2Spec, fit: Fit
    ) -> Mapping[str, tuple[str, ...]]:
        """Return the types that each subnet may use; empty: all of them.

        A repeat of a launch says what the first call said. Another replica may say something else: AWS then
        answers that the token was used, and the machines are found by it.
        """
        if request.usage_class is not UsageClass.SPOT or not fit.types:
            return {}
        if request.token not in self._spared:
            place = await self._survey.place(spec)
            recent = await self._interruptions.recent()
            self._spared[request.token] = spared(spec.subnets, place.zones, fit.types, recent)
            while len(self._spared) > ANSWERED_MOST:
                del self._spared[next(iter(self._spared))]
        return self._spared[request.token]

    async def _create(self, asked: dict[str, Any], content: Content) -> Mapping[str, Any]:
        try:
            return await self.aws.write("create_fleet", **asked)
        except AwsError as error:
            if error.code in NO_LAUNCH_TEMPLATE:
                self._templates.forget(content)
            raise

    async def _as_they_are(self, token: str, machines: tuple[Machine, ...]) -> tuple[Machine, ...]:
        """Return the machines as they are now: AWS repeats an old answer, and some may have ended since."""
        again = token in self._answered
        self._answered[token] = True
        while len(self._answered) > ANSWERED_MOST:
            del self._answered[next(iter(self._answered))]
        if not again or not machines:
            return machines
        known = await self.describe([machine.id for machine in machines])
        return tuple(
            replace(machine, state=known[machine.id].state if machine.id in known else MachineState.PENDING)
            for machine in machines
        )

    async def _end(self, machine_ids: Sequence[str]) -> Mapping[str, AwsError]:
        """Terminate a batch; return those that were refused alone, with the reason.

        One unknown or foreign id makes EC2 refuse the whole batch. Then its halves are tried, down to single
        ids.
        """
        try:
            await self.aws.write("terminate_instances", InstanceIds=list(machine_ids))
        except AwsError as error:
            if not errors.may_fit_fewer(error):
                raise
            if len(machine_ids) == 1:
                return {machine_ids[0]: error}
            half = len(machine_ids) // 2
            return {**await self._end(machine_ids[:half]), **await self._end(machine_ids[half:])}
        return {}

    async def _check_refused(self, refused: Mapping[str, AwsError]) -> None:
        """Check refused ids by a look. Rights by tag also deny ids that don't exist: only visible machines
        were really refused."""
        denied = {each: error for each, error in refused.items() if error.code not in UNKNOWN_MACHINE}
        if denied:
            seen = await self._describer.of_ids(list(denied))
            for machine in seen.values():
                if machine.state is not MachineState.GONE:
                    raise denied[machine.id]


@cache
def agent() -> str:
    return muster.agent.source()


def spec_of(template: TemplateSpec) -> Ec2Spec:
    """Return the template's EC2 table. Refuses a template of another provider."""
    if TEMPLATE.name not in template.tables:
        message = f"cannot launch: template {template.name} has no table ec2"
        raise Refused(message, Reason.PROVIDER_REFUSED)
    return TEMPLATE.of(template)


def _possible(machine_ids: Sequence[str]) -> Sequence[str]:
    """Return the names that can be ids; AWS refuses whole requests for others."""
    return [each for each in dict.fromkeys(machine_ids) if _ID.fullmatch(each)]


@contextmanager
def _meaning(of: _Meaning) -> Iterator[None]:
    try:
        yield
    except (AwsError, NoAnswer, NotAsked) as error:
        raise of(error) from error
