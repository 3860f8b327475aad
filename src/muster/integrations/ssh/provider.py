"""The NodeProvider of machines that you own. Owns the verbs; hosts hold what is true.

A host that can't be asked is told apart from one that answers. Its machines are unknown, a listing without it
is no listing, and a verb that needs it is uncertain.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any

from muster.domain.access import check_secret, read_proof
from muster.domain.errors import Forbidden, NotYet, Uncertain
from muster.domain.reasons import Reason
from muster.domain.template import TemplateSpec
from muster.integrations.ssh import session
from muster.integrations.ssh.hosts import Hosts, RemoteHost
from muster.integrations.ssh.launcher import Launcher, by_host, machine, parted
from muster.ports.identity import Identity
from muster.ports.provider import LaunchAnswer, LaunchRequest, Machine, MachineState

NAME = "ssh"
WATCH_EVERY = 2.0
"""Seconds between looks at each host."""


class SshProvider:
    """Implements muster.ports.provider.NodeProvider and muster.ports.provider.EndingsSource."""

    name = NAME
    visibility_window = 0.0
    call_timeout = 45.0
    """A host that isn't there is given up after the connection's own time limit, well inside."""
    makes_way = frozenset({Reason.CAPACITY})

    def __init__(
        self,
        hosts: Hosts,
        *,
        installation_id: str,
        servers: Callable[[RemoteHost], Sequence[str]],
        dead_man: Callable[[TemplateSpec], float],
    ) -> None:
        self.hosts = hosts
        self._installation_id = installation_id
        self._launcher = Launcher(
            hosts=hosts, installation_id=installation_id, servers=servers, dead_man=dead_man
        )
        self._living: dict[str, dict[str, Machine]] = {}
        """By host: machines whose end `ended` will tell."""
        self._looks: dict[str, asyncio.Task[Sequence[Machine]]] = {}

    # --- the port ---------------------------------------------------------------------------------

    async def launch(self, request: LaunchRequest) -> LaunchAnswer:
        answer = await self._launcher.launch(request)
        for each in answer.machines:
            self._living.setdefault(each.id.partition("@")[2], {})[each.id] = each
        return answer

    async def find(self, token: str) -> Sequence[Machine]:
        plan = self._launcher.plan(token)
        remotes = [each for each in self.hosts.serving if plan is None or each.name in plan.hosts]
        found = await self._told(remotes, lambda remote: _ask(remote, "look", token=token))
        return [each for machines in found.values() for each in machines]

    async def list(self) -> AsyncIterator[Machine]:
        found = await self._told(self.hosts.serving, lambda remote: _ask(remote, "look", prune=True))
        for machines in found.values():
            for each in machines:
                yield each

    async def describe(self, machine_ids: Sequence[str]) -> Mapping[str, Machine]:
        wanted = self._known(machine_ids)
        answers, missing = await self.hosts.ask_each(
            (self.hosts.remotes[name] for name in wanted),
            lambda remote: _ask(remote, "look", ids=wanted[remote.name]),
        )
        found: dict[str, Machine] = {}
        for name, slots in wanted.items():
            if name in missing:
                ids, why = [f"{slot}@{name}" for slot in slots], str(missing[name])
                found |= {each: Machine.unknown(each, self._installation_id, why) for each in ids}
            else:
                found |= {each.id: each for each in self._machines(name, answers[name])}
        return found

    async def console(self, machine_id: str, *, lines: int) -> str | None:
        wanted = self._known([machine_id])
        for name, slots in wanted.items():
            told = await _ask(self.hosts.remotes[name], "console", machine=slots[0], lines=lines)
            text: str | None = told["text"]
            return text
        return None

    async def terminate(self, machine_ids: Sequence[str]) -> None:
        wanted = self._known(machine_ids)
        await self._told(
            [self.hosts.remotes[name] for name in wanted],
            lambda remote: _ask(remote, "terminate", ids=wanted[remote.name]),
        )

    async def ended(self) -> Sequence[Machine]:
        """Look at every host again and again; one that is away delays no other."""
        while True:
            for remote in self.hosts.serving:
                if remote.name not in self._looks:
                    self._looks[remote.name] = asyncio.create_task(self._newly_ended(remote))
            await asyncio.sleep(WATCH_EVERY)
            done = [name for name, task in self._looks.items() if task.done()]
            found = [each for name in done for each in self._looks.pop(name).result()]
            if found:
                return found

    # --- for the rest of this integration -------------------------------------------------------------

    async def secret_hash(self, machine_id: str) -> tuple[Machine, str] | None:
        """A machine and the hash of its secret, as its host has it. None: there is no such machine.
        Raises Uncertain."""
        wanted = self._known([machine_id])
        for name, slots in wanted.items():
            told = (await _ask(self.hosts.remotes[name], "look", ids=slots))["machines"]
            if told:
                return machine(told[0], name, self._installation_id), told[0]["secret_sha256"]
        return None

    async def close(self) -> None:
        for task in self._looks.values():
            task.cancel()
        await asyncio.gather(*self._looks.values(), return_exceptions=True)
        await self.hosts.close()

    # --- hosts ------------------------------------------------------------------------------------

    def _known(self, machine_ids: Sequence[str]) -> dict[str, Sequence[str]]:
        """By host. The operator gave up a host that the settings no longer name, and its machines with it."""
        return {name: slots for name, slots in by_host(machine_ids).items() if name in self.hosts.remotes}

    async def _told(
        self, remotes: Sequence[RemoteHost], ask: Callable[[RemoteHost], Any]
    ) -> dict[str, Sequence[Machine]]:
        """What every host says. Raises Uncertain, when all were asked, if one of them gave no answer."""
        answers, missing = await self.hosts.ask_each(remotes, ask)
        if missing:
            raise Uncertain("; ".join(map(str, missing.values())))
        return {name: self._machines(name, answer) for name, answer in answers.items()}

    def _machines(self, host: str, answer: Mapping[str, Any]) -> Sequence[Machine]:
        return [machine(each, host, self._installation_id) for each in answer["machines"]]

    async def _newly_ended(self, remote: RemoteHost) -> Sequence[Machine]:
        living = self._living.setdefault(remote.name, {})
        try:
            seen = {each.id: each for each in self._machines(remote.name, await _ask(remote, "look"))}
            over = [slot for slot, _ in filter(None, (parted(each) for each in living if each not in seen))]
            ended = self._machines(remote.name, await _ask(remote, "look", ids=over)) if over else []
        except Uncertain:
            return []
        self._living[remote.name] = seen
        return ended


async def _ask(remote: RemoteHost, verb: str, **fields: Any) -> Any:
    try:
        return await remote.ask(verb, **fields)
    except session.Refused as error:
        raise Uncertain(f"host {remote.name} can't {verb}: {error}") from error


RETRY = 2.0


class SshVerifier:
    """Implements muster.ports.identity.IdentityVerifier."""

    def __init__(self, provider: SshProvider) -> None:
        self._provider = provider

    async def verify(self, proof: str) -> Identity:
        machine_id, secret = read_proof(proof, NAME)
        if not parted(machine_id):
            raise Forbidden(f"cannot accept the proof: {machine_id!r} is no machine of an ssh host")
        try:
            found = await self._provider.secret_hash(machine_id)
        except Uncertain as error:
            raise NotYet(f"cannot check the proof of {machine_id}: {error}", RETRY) from error
        if found is None or found[0].state is MachineState.GONE:
            raise Forbidden("cannot accept the proof: there is no such machine")
        check_secret(secret, found[1])
        return Identity(
            provider=NAME,
            machine_id=machine_id,
            installation_id=found[0].installation_id,
            token=found[0].token,
        )
