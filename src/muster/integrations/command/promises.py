"""What an executable promises, tried one by one against the real thing.

Owns the sentences of `muster provider check`. Everything is made under an installation id of its own,
bounded in number, and ended at the end, also after a failure. Refuses to touch any other machine.
"""

import asyncio
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field, replace
from enum import StrEnum

from muster.domain.errors import MusterError, ProviderError, Refused, TokenSpent, Uncertain
from muster.domain.ids import LaunchId
from muster.domain.template import ResourceClass, TemplateSpec, UsageClass
from muster.integrations.command.machines import MachineMaker
from muster.integrations.command.parts import dialect_of
from muster.integrations.command.protocol import Feature, Hello
from muster.integrations.command.provider import CommandProvider
from muster.integrations.command.tables import CommandConfig
from muster.ports.provider import LaunchRequest, Machine, MachineState

DEAD_MAN = 900.0
"""Seconds after which a machine of the check powers itself off, whatever happens to the check."""
ENDING = 300.0
"""Seconds for a machine to end."""
NOWHERE = "http://127.0.0.1:9"


class Verdict(StrEnum):
    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    promise: str
    verdict: Verdict
    words: str = ""
    """What was seen and what to mend, or why it was skipped."""


class Broken(Exception):
    """A promise was not kept."""


class NotPromised(Exception):
    """The executable doesn't have the feature."""


@dataclass(slots=True, kw_only=True)
class Trial:
    """One check of one executable."""

    config: CommandConfig
    template: TemplateSpec
    resource_class: ResourceClass
    count: int
    pause: float = 1.0
    """Seconds between two looks."""
    ending: float = ENDING
    installation_id: str = field(default_factory=lambda: f"check-{secrets.token_hex(4)}")
    made: list[Machine] = field(default_factory=list)

    def provider(self, installation_id: str | None = None) -> CommandProvider:
        own = installation_id or self.installation_id
        maker = MachineMaker(
            provider=self.config.provider,
            key=secrets.token_bytes(32),
            servers=[NOWHERE],
            dead_man=lambda _spec: DEAD_MAN,
        )
        return CommandProvider(
            self.config, dialect_of(self.config, installation_id=own), maker, installation_id=own
        )

    async def hello(self) -> Hello:
        return await dialect_of(self.config, installation_id=self.installation_id).hello()

    async def needs(self, feature: Feature) -> None:
        if feature not in (await self.hello()).features:
            raise NotPromised(f"hello does not name the feature {feature}")

    def asking(self, count: int | None = None) -> LaunchRequest:
        return LaunchRequest(
            token=f"{self.installation_id}/op-check.1",
            launch_id=LaunchId("check"),
            installation_id=self.installation_id,
            template=self.template,
            revision=1,
            resource_class=self.resource_class,
            usage_class=UsageClass.ON_DEMAND,
            instance_types=("*",),
            count=count or self.count,
        )

    async def seen(self) -> list[Machine]:
        return [machine async for machine in self.provider().list()]

    async def until(self, holds: Callable[[], Awaitable[bool]], seconds: float, what: str) -> None:
        try:
            async with asyncio.timeout(seconds):
                while not await holds():  # noqa: ASYNC110 — only asking tells whether it holds
                    await asyncio.sleep(self.pause)
        except TimeoutError:
            raise Broken(f"{what} within {seconds:.0f} s") from None


async def _hello(trial: Trial) -> None:
    await trial.hello()


async def _empty(trial: Trial) -> None:
    found = await trial.seen()
    if found:
        raise Broken(f"list shows {found[0].id} to an installation that made nothing; filter by prefix")


async def _unknown(trial: Trial) -> None:
    if await trial.provider().describe(["no-such-machine"]):
        raise Broken("describe made up a machine; leave unknown ids out")
    await trial.provider().terminate(["no-such-machine"])


async def _refused(trial: Trial) -> None:
    if not (await trial.hello()).types:
        raise NotPromised("hello names no types")
    try:
        await trial.provider().launch(replace(trial.asking(), instance_types=("zz9*",)))
    except Refused:
        return
    raise Broken("a launch of a type that does not exist was accepted")


async def _launches(trial: Trial) -> None:
    try:
        answer = await trial.provider().launch(trial.asking())
    except Uncertain:
        trial.made = await trial.seen()
        raise
    trial.made = list(answer.machines)
    if len(answer.machines) != trial.count:
        raise Broken(f"{len(answer.machines)} of {trial.count} machines came: {answer.message}")


async def _repeats(trial: Trial) -> None:
    answer = await trial.provider().launch(trial.asking())
    before, after = ({each.id for each in found} for found in (trial.made, answer.machines))
    trial.made += [each for each in answer.machines if each.id not in before]
    if before != after:
        raise Broken(f"a repeat gave {sorted(after)} instead of {sorted(before)}; go by the machines' names")


async def _spent(trial: Trial) -> None:
    await trial.needs(Feature.IDEMPOTENT)
    await trial.needs(Feature.BATCH)
    try:
        await trial.provider().launch(trial.asking(count=trial.count + 1))
    except TokenSpent:
        return
    raise Broken("a launch with another fingerprint was accepted; answer launch_spent")


async def _listed(trial: Trial) -> None:
    wanted = {each.id for each in trial.made}

    async def all_there() -> bool:
        return {each.id for each in await trial.seen()} == wanted

    window = max(trial.provider().visibility_window, trial.pause * 2)
    await trial.until(all_there, window, f"list did not show exactly {sorted(wanted)}")


async def _described(trial: Trial) -> None:
    asked = [each.id for each in trial.made]
    known = await trial.provider().describe(asked)
    gone = [each for each in asked if each not in known or known[each].state is MachineState.GONE]
    if gone:
        raise Broken(f"describe does not show {gone[0]}, which was just made")


async def _apart(trial: Trial) -> None:
    other = trial.provider(f"{trial.installation_id}x")
    if [machine async for machine in other.list()] or await other.describe([trial.made[0].id]):
        raise Broken("another installation sees the machine; show names by prefix only")


async def _console(trial: Trial) -> None:
    await trial.needs(Feature.CONSOLE)
    provider = trial.provider()

    async def spoken() -> bool:
        return bool(await provider.console(trial.made[0].id, lines=10))

    await trial.until(spoken, 60.0, "the console said nothing")


async def _terminates(trial: Trial) -> None:
    doomed, *spared = [each.id for each in trial.made]
    provider = trial.provider()
    await provider.terminate([doomed])
    await provider.terminate([doomed])

    async def ended() -> bool:
        return doomed not in {each.id for each in await trial.seen()}

    await trial.until(ended, trial.ending, f"{doomed} did not end")
    left = {each.id for each in await trial.seen()}
    if left != set(spared):
        raise Broken(f"terminate of {doomed} left {sorted(left)} instead of {sorted(spared)}")


async def _stays_gone(trial: Trial) -> None:
    await trial.needs(Feature.IDEMPOTENT)
    before = {each.id for each in await trial.seen()}
    await trial.provider().launch(trial.asking())
    after = await trial.seen()
    trial.made += [each for each in after if each.id not in before]
    if {each.id for each in after} != before:
        raise Broken("a repeat of the launch made a machine again that had ended; keep what was launched")


Promise = Callable[[Trial], Awaitable[None]]
LOOKING: dict[str, Promise] = {
    "hello answers in time and speaks protocol 1": _hello,
    "a new installation has no machines": _empty,
    "unknown machines are left out, and ending them is no error": _unknown,
    "a type that does not exist is refused": _refused,
}
"""Promises that make no machine."""
MAKING: dict[str, Promise] = {
    "a launch makes the machines that were asked for": _launches,
    "the same launch again makes nothing new": _repeats,
    "the same launch with other machines is refused": _spent,
    "list shows the machines within the visibility window": _listed,
    "describe shows each machine": _described,
    "another installation sees none of them": _apart,
    "the console can be read": _console,
    "terminate ends one machine, twice is no error, others are spared": _terminates,
    "a repeated launch revives no machine": _stays_gone,
}


async def tried(trial: Trial, *, dry: bool = False) -> AsyncIterator[Outcome]:
    """Try each promise, then end what was made. Without machines, what needs them is skipped."""
    for sentence, promise in LOOKING.items():
        yield await _outcome(sentence, promise, trial)
    if dry:
        return
    try:
        for sentence, promise in MAKING.items():
            if promise is not _launches and not trial.made:
                yield Outcome(
                    promise=sentence, verdict=Verdict.SKIPPED, words="there is no machine to try it with"
                )
                continue
            yield await _outcome(sentence, promise, trial)
    finally:
        left = await _outcome("nothing is left behind", _cleaned, trial)
    yield left


async def _outcome(sentence: str, promise: Promise, trial: Trial) -> Outcome:
    try:
        await promise(trial)
    except NotPromised as error:
        return Outcome(promise=sentence, verdict=Verdict.SKIPPED, words=str(error))
    except (Broken, ProviderError, MusterError) as error:
        return Outcome(promise=sentence, verdict=Verdict.FAILED, words=str(error))
    return Outcome(promise=sentence, verdict=Verdict.PASSED)


async def _cleaned(trial: Trial) -> None:
    async def clean() -> bool:
        found = [each.id for each in await trial.seen()]
        if found:
            await trial.provider().terminate(found)
        return not found

    names = ", ".join(each.id for each in trial.made) or "none"
    await trial.until(clean, trial.ending, f"machines did not end (made: {names}); end them by hand, not")
