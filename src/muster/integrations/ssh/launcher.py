"""One launch over several hosts: planned once, kept on the hosts, followed by every repeat.

    1  every host is asked how much room it has, and whether it knows a plan for this token
    2  without a plan, one is made, and kept by the host that is first for this token: the first writer wins
    3  each host of the plan keeps it too, and starts its share under its own lock and capacity

A crash after 2 leaves a plan that the repeat finds. If the only host with a copy is away, a repeat by that
server is uncertain. A server that starts anew meanwhile makes another plan. Then the machines of the first
one are orphans, and are terminated when their host is back.
"""

import asyncio
import hashlib
import re
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from muster.domain.errors import Refused, Throttled, TokenSpent, Uncertain
from muster.domain.reasons import Reason
from muster.domain.template import TemplateSpec, UsageClass
from muster.domain.text import counted
from muster.integrations.ssh import bundle, session
from muster.integrations.ssh.hosts import Hosts, RemoteHost
from muster.integrations.ssh.tables import TEMPLATE, Place
from muster.ports.provider import LaunchAnswer, LaunchRequest, Machine, MachineState

WITHIN = 26.0
"""Seconds for a host's share: its own limits are inside."""
RETRY = 5.0
REMEMBERED = 1000
_ID = re.compile(r"(l-[0-9a-f]{24}\.(?:0|[1-9][0-9]{0,5}))@([a-z0-9-]{1,63})", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    fingerprint: str
    hosts: Mapping[str, int]
    reason: str | None = None
    message: str = ""

    def told(self) -> dict[str, Any]:
        return {
            "fingerprint": self.fingerprint,
            "hosts": dict(self.hosts),
            "reason": self.reason,
            "message": self.message,
        }

    @classmethod
    def heard(cls, told: Mapping[str, Any]) -> "Plan":
        return cls(**{name: told[name] for name in ("fingerprint", "hosts", "reason", "message")})


@dataclass(slots=True, kw_only=True)
class Launcher:
    hosts: Hosts
    installation_id: str
    servers: Callable[[RemoteHost], Sequence[str]]
    dead_man: Callable[[TemplateSpec], float]
    _plans: "OrderedDict[str, Plan]" = field(default_factory=OrderedDict)
    """The latest that this server made or followed. Only a shortcut, and a reason to be careful."""
    _planned: dict[str, int] = field(default_factory=dict)
    """Places on each host that a launch in progress is about to take."""
    _choosing: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def launch(self, request: LaunchRequest) -> LaunchAnswer:
        if request.installation_id != self.installation_id:
            raise Refused("cannot launch for another installation", Reason.PROVIDER_REFUSED)
        fitting = self._fitting(request)
        fingerprint = request.fingerprint
        plan = self._plans.get(request.token)
        taken: Mapping[str, int] = {}
        try:
            if plan is None:
                async with self._choosing:
                    plan, taken = await self._chosen(request, fitting, fingerprint)
            if plan.fingerprint != fingerprint:
                raise TokenSpent(
                    f"cannot launch with token {request.token}: it was used with other parameters"
                )
            return await self._followed(request, plan)
        finally:
            for name, count in taken.items():
                self._planned[name] -= count

    def plan(self, token: str) -> Plan | None:
        return self._plans.get(token)

    def _fitting(self, request: LaunchRequest) -> dict[str, RemoteHost]:
        spec, size = TEMPLATE.of(request.template), request.resource_class.name
        fitting = {
            remote.name: remote
            for remote in self.hosts.serving
            if remote.host.serves(size, request.instance_types, spec)
        }
        if not fitting:
            asked = [f"class {size}", f"types {' '.join(request.instance_types)}"]
            asked += [f"labels {' '.join(spec.labels)}"] if spec.labels else []
            asked += [f"architecture {spec.architecture}"] if spec.architecture != "any" else []
            words = f"none of {counted(len(self.hosts.serving), 'host')} fits {', '.join(asked)}"
            raise Refused(f"cannot launch: {words}; see `muster hosts`", Reason.PROVIDER_REFUSED)
        return fitting

    # --- a plan -----------------------------------------------------------------------------------

    async def _chosen(
        self, request: LaunchRequest, fitting: Mapping[str, RemoteHost], fingerprint: str
    ) -> tuple[Plan, Mapping[str, int]]:
        """The plan that counts, and the places that a new one is about to take."""
        known = self._plans.get(request.token)  # a call that came before may have made it meanwhile
        if known is not None:
            return known, {}
        offers, missing = await self.hosts.ask_each(
            self.hosts.serving,
            lambda remote: remote.ask("offer", token=request.token, slots=remote.host.slots),
        )
        order = ranked(request.token, offers)
        found = next((offers[name]["plan"] for name in order if offers[name]["plan"]), None)
        if found is not None:
            return self._remember(request.token, Plan.heard(found)), {}
        here = {name: offers[name] for name in fitting if name in offers}
        if not here:
            why = "; ".join(str(missing[name]) for name in fitting)
            raise Throttled(f"cannot launch: no host that fits can be reached ({why})", RETRY)
        free = {
            name: 0 if offer["drained"] else offer["free"] - self._planned.get(name, 0)
            for name, offer in here.items()
        }
        shares = placed(request.count, free, self.hosts.inventory.settings.place)
        if not shares:
            raise Refused(f"cannot launch: {_state(fitting, here, missing)}", Reason.CAPACITY)
        plan = Plan(fingerprint=fingerprint, hosts=shares)
        if sum(shares.values()) < request.count:
            words = _state(fitting, here, missing)
            message = f"{sum(shares.values())} of {request.count} places: {words}"
            plan = replace(plan, reason=Reason.CAPACITY.value, message=message)
        anchor = self.hosts.remotes[next(name for name in order if name in here)]
        kept = Plan.heard(await _translated(anchor, "plan", token=request.token, plan=plan.told()))
        if kept != plan:
            return self._remember(request.token, kept), {}
        for name, count in shares.items():
            self._planned[name] = self._planned.get(name, 0) + count
        return self._remember(request.token, plan), shares

    def _remember(self, token: str, plan: Plan) -> Plan:
        self._plans[token] = plan
        while len(self._plans) > REMEMBERED:
            self._plans.popitem(last=False)
        return plan

    # --- its hosts --------------------------------------------------------------------------------

    async def _followed(self, request: LaunchRequest, plan: Plan) -> LaunchAnswer:
        unknown = [name for name in plan.hosts if name not in self.hosts.remotes]
        if unknown:
            raise Uncertain(f"cannot finish the launch: the settings no longer name {', '.join(unknown)}")
        answers, missing = await self.hosts.ask_each(
            [self.hosts.remotes[name] for name in plan.hosts],
            lambda remote: self._share(remote, request, plan),
        )
        if missing:
            raise Uncertain("cannot finish the launch: " + "; ".join(map(str, missing.values())))
        machines = tuple(
            machine(each, name, self.installation_id)
            for name, answer in answers.items()
            for each in answer["machines"]
        )
        short = [(name, answer) for name, answer in answers.items() if answer["reason"]]
        reason = next((answer["reason"] for _, answer in short), plan.reason)
        words = [plan.message, *(f"{name}: {answer['message']}" for name, answer in short)]
        return LaunchAnswer(
            machines=machines,
            reason=Reason(reason) if reason else None,
            message="; ".join(filter(None, words)),
        )

    async def _share(self, remote: RemoteHost, request: LaunchRequest, plan: Plan) -> Any:
        size = request.resource_class
        return await _translated(
            remote,
            "launch",
            within=WITHIN,
            again=False,
            token=request.token,
            plan=plan.told(),
            count=plan.hosts[remote.name],
            slots=remote.host.slots,
            instance_type=remote.host.type_of(size.name),
            usage_class=request.usage_class.value,
            size={"cpu": size.cpu, "memory_mib": size.memory_mib},
            servers=list(self.servers(remote)),
            proof=f"ssh:{{}}@{remote.name}:",
            dead_man=self.dead_man(request.template),
            limits=remote.host.settings.limits,
            agent=bundle.agent(),
            keeper=bundle.keeper(),
        )


def _state(
    fitting: Mapping[str, RemoteHost], here: Mapping[str, Any], missing: Mapping[str, Uncertain]
) -> str:
    """Why there is not more room, in words."""
    full = [name for name, offer in here.items() if not (offer["free"] or offer["drained"] or offer["why"])]
    drained = [name for name, offer in here.items() if offer["drained"]]
    ill = [f"{name}: {offer['why']}" for name, offer in here.items() if offer["why"]]
    words = [f"{counted(len(fitting), 'host')} fit"]
    words += [f"full: {', '.join(full)}"] if full else []
    words += [f"drained: {', '.join(drained)}"] if drained else []
    words += [str(missing[name]) for name in fitting if name in missing]
    return "; ".join([*words, *ill])


async def _translated(remote: RemoteHost, verb: str, **fields: Any) -> Any:
    try:
        return await remote.ask(verb, **fields)
    except session.Refused as error:
        words = f"cannot launch on host {remote.name}: {error}"
        if error.kind == "spent":
            raise TokenSpent(words) from error
        if error.kind == "later" and verb == "plan":
            raise Throttled(words, RETRY) from error
        if error.kind == "later":
            # Its disk is full, say. What it had started before counts; the rest is lack of room.
            told = await remote.ask("look", token=fields["token"])
            return {**told, "reason": Reason.CAPACITY.value, "message": str(error)}
        raise Uncertain(words) from error


def placed(count: int, free: Mapping[str, int], place: Place) -> dict[str, int]:
    """At most `count` nodes by host. Fewer if there is no more room. Hosts without a node are left out."""
    room = {name: left for name, left in free.items() if left > 0}
    return _spread(count, room) if place is Place.SPREAD else _packed(count, room)


def _spread(count: int, room: Mapping[str, int]) -> dict[str, int]:
    """One each in turn; the emptiest hosts first."""
    given: dict[str, int] = {}
    for _ in range(min(count, sum(room.values()))):
        open_ = (name for name in room if given.get(name, 0) < room[name])
        name = min(open_, key=lambda each: (given.get(each, 0), -room[each], each))
        given[name] = given.get(name, 0) + 1
    return given


def _packed(count: int, room: Mapping[str, int]) -> dict[str, int]:
    """The fewest hosts: the fullest one that holds all that is left, else the emptiest wholly."""
    given: dict[str, int] = {}
    left = count
    while left and len(given) < len(room):
        others = [name for name in room if name not in given]
        enough = [name for name in others if room[name] >= left]
        name = min(enough, key=lambda each: (room[each], each)) if enough else _emptiest(others, room)
        given[name] = min(left, room[name])
        left -= given[name]
    return given


def _emptiest(names: Iterable[str], room: Mapping[str, int]) -> str:
    return min(names, key=lambda each: (-room[each], each))


def ranked(token: str, names: Iterable[str]) -> list[str]:
    """Hosts in an order that depends on the token alone: all callers agree on the first one that is there."""
    return sorted(names, key=lambda name: hashlib.sha256(f"{token}\0{name}".encode()).hexdigest())


def parted(machine_id: str) -> tuple[str, str] | None:
    """Slot and host; None if it is no id of ours."""
    match = _ID.fullmatch(machine_id)
    return None if match is None else (match.group(1), match.group(2))


def by_host(machine_ids: Iterable[str]) -> dict[str, list[str]]:
    """The slots that are named, by host, each once."""
    found: dict[str, list[str]] = {}
    for slot, host in filter(None, map(parted, dict.fromkeys(machine_ids))):
        found.setdefault(host, []).append(slot)
    return found


def machine(told: Mapping[str, Any], host: str, installation_id: str) -> Machine:
    """Return what a host says of a slot, as a machine of the port. Its id is `<slot>@<host>`."""
    why = told["why"]
    return Machine(
        id=f"{told['id']}@{host}",
        installation_id=installation_id,
        token=told["token"],
        instance_type=told["type"],
        usage_class=UsageClass(told["usage"]),
        state=MachineState(told["state"]),
        why=f"{why} ({host})" if why else "",
    )
