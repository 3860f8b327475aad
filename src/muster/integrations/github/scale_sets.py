"""Every call about runner scale sets, as verbs. Raises ProviderError; `actions_service` names its kinds."""

import asyncio
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import httpx

from muster.domain.errors import Refused
from muster.domain.reasons import Reason
from muster.integrations.github.actions_service import (
    VERSION,
    ActionsService,
    Gone,
    Reply,
    RunnerExists,
    RunnerMissing,
    SessionMissing,
    SetExists,
    TokenEnded,
)
from muster.integrations.github.responses import unreadable
from muster.integrations.github.runners import Scope
from muster.integrations.github.scale_set_shapes import (
    AcquirableJob,
    JitConfig,
    Listed,
    Message,
    RunnerGroup,
    ScaleSet,
    Session,
    SetRunner,
    Statistics,
    decoded,
)

POLL_TIMEOUT = 120.0
"""Seconds. GitHub answers a poll without a message after 50 to 90."""
_SETS = "/_apis/runtime/runnerscalesets"
_AGENTS = "/_apis/distributedtask/pools/0/agents"
_NOTHING = 202
_EMPTY = (b"", b'""', b"null")
"""Bodies of a success that were seen where a message was to be."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SetSpec:
    """A scale set as it should be."""

    scope: Scope
    name: str
    group: str = ""
    """Empty: the default group."""
    labels: tuple[str, ...] = ()
    """Beside its name, which is always a label."""

    @property
    def all_labels(self) -> tuple[str, ...]:
        named: dict[str, str] = {}
        for each in (self.name, *self.labels):
            named.setdefault(each.lower(), each)  # to GitHub, case makes no difference
        return tuple(named.values())


class NameTaken(Refused):
    """A set of that name is there, and it is not ours."""


class ScaleSets:
    """Sets and their runners."""

    def __init__(self, service: ActionsService) -> None:
        self._service = service

    async def group_id(self, spec: SetSpec) -> int:
        """Return the id of the spec's runner group. Raises Refused if there is none of that name."""
        if not spec.group:
            return 1
        what = f"look for the runner group {spec.group!r} of {spec.scope}"
        reply = await self._service.call(
            "GET", "/_apis/runtime/runnergroups/", what, scope=spec.scope, query={"groupName": spec.group}
        )
        groups: Listed[RunnerGroup] = _read(reply, Listed[RunnerGroup], what)
        for group in groups.value:
            if group.name == spec.group:
                return group.id
        words = f"cannot {what}: there is none of that name; make it or name another one"
        raise Refused(words, Reason.PROVIDER_REFUSED)

    async def find(self, spec: SetSpec, group_id: int) -> ScaleSet | None:
        what = f"look for the scale set {spec.name!r} of {spec.scope}"
        query = {"runnerGroupId": str(group_id), "name": spec.name}
        reply = await self._service.call("GET", _SETS, what, scope=spec.scope, query=query)
        found: Listed[ScaleSet] = _read(reply, Listed[ScaleSet], what)
        return next((each for each in found.value if each.name == spec.name), None)

    async def elsewhere(self, spec: SetSpec, group_id: int) -> Sequence[ScaleSet]:
        """Return sets of the same name in other groups: GitHub shares jobs among them as it likes."""
        what = f"list the scale sets of {spec.scope}"
        reply = await self._service.call("GET", _SETS, what, scope=spec.scope)
        found: Listed[ScaleSet] = _read(reply, Listed[ScaleSet], what)
        return [each for each in found.value if each.name == spec.name and each.runner_group_id != group_id]

    async def ensure(self, spec: SetSpec, *, earlier: Collection[frozenset[str]] = ()) -> ScaleSet:
        """Return the set, made or changed so that it has the spec's labels. GHES may drop some.

        A set with labels that are none of ours is another program's: its labels are never changed.
        `earlier`: labels, in lower case, that the set had from us before. Raises NameTaken.
        """
        group_id = await self.group_id(spec)
        found = await self.find(spec, group_id)
        if found is None:
            found = await self._make(spec, group_id)
        wanted = frozenset(each.lower() for each in spec.all_labels)
        if found.label_names == wanted:
            return found
        if not found.label_names <= wanted and found.label_names not in earlier:
            raise NameTaken(
                f"cannot use the scale set {spec.name!r} of {spec.scope}: another program made it with the"
                f" labels {', '.join(sorted(found.label_names))}; choose another name, or delete that set",
                Reason.PROVIDER_REFUSED,
            )
        what = f"change the labels of the scale set {spec.name!r}"
        reply = await self._service.call(
            "PATCH", f"{_SETS}/{found.id}", what, scope=spec.scope, body=_body(spec, group_id)
        )
        changed: ScaleSet = _read(reply, ScaleSet, what)
        return changed

    async def _make(self, spec: SetSpec, group_id: int) -> ScaleSet:
        what = f"make the scale set {spec.name!r} of {spec.scope}"
        try:
            reply = await self._service.call(
                "POST", _SETS, what, scope=spec.scope, body=_body(spec, group_id)
            )
        except SetExists:
            # An earlier answer was lost, or another replica was faster.
            found = await self.find(spec, group_id)
            if found is None:
                raise
            return found
        made: ScaleSet = _read(reply, ScaleSet, what)
        return made

    async def remove(self, scope: Scope, set_id: int) -> None:
        await self._service.call("DELETE", f"{_SETS}/{set_id}", "remove a scale set", scope=scope)

    # --- runners ----------------------------------------------------------------------------------

    async def just_in_time(self, scope: Scope, set_id: int, *, name: str) -> str:
        """Register a runner of the set for one job; return its configuration, a secret.

        A runner of that name which is there already is replaced: its configuration stops working. Raises
        RunnerBusy if it has a job, and SetMissing.
        """
        try:
            return await self._configure(scope, set_id, name)
        except RunnerExists:
            earlier = await self.runner(scope, name)
        if earlier is not None:
            if earlier.runner_scale_set_id not in (None, set_id):
                words = f"cannot register the runner {name}: another scale set has one of that name"
                raise Refused(words, Reason.PROVIDER_REFUSED)
            await self.remove_runner(scope, earlier.id)
        return await self._configure(scope, set_id, name)

    async def _configure(self, scope: Scope, set_id: int, name: str) -> str:
        what = f"register the runner {name} for {scope}"
        body = {"name": name, "workFolder": "_work"}
        path = f"{_SETS}/{set_id}/generatejitconfig"
        made: JitConfig = _read(
            await self._service.call("POST", path, what, scope=scope, body=body), JitConfig, what
        )
        return made.encoded

    async def runner(self, scope: Scope, name: str) -> SetRunner | None:
        what = f"look for the runner {name} of {scope}"
        reply = await self._service.call("GET", _AGENTS, what, scope=scope, query={"agentName": name})
        found: Listed[SetRunner] = _read(reply, Listed[SetRunner], what)
        return next((each for each in found.value if each.name == name), None)

    async def remove_runner(self, scope: Scope, runner_id: int) -> None:
        """Remove a runner; a missing one counts as removed. Raises RunnerBusy while it has a job."""
        with suppress(RunnerMissing):
            await self._service.call(
                "DELETE", f"{_AGENTS}/{runner_id}", f"remove a runner of {scope}", scope=scope
            )

    # --- sessions ---------------------------------------------------------------------------------

    async def open(self, scope: Scope, set_id: int, *, owner: str) -> "SetSession":
        """Open the set's one session. Raises SessionTaken while another one lives, and SetMissing."""
        what = f"open a session of scale set {set_id} of {scope}"
        reply = await self._service.call(
            "POST", f"{_SETS}/{set_id}/sessions", what, scope=scope, body={"ownerName": owner}
        )
        session: Session = _read(reply, Session, what)
        return SetSession(service=self._service, scope=scope, set_id=set_id, current=session)


@dataclass(slots=True, kw_only=True)
class SetSession:
    """The one session of a set. Calls that meet the end of its queue token share one renewal."""

    service: ActionsService
    scope: Scope
    set_id: int
    current: Session
    last_message: int = 0
    """The newest message that this session has seen. Never stored: ids begin again without a word."""
    _turn: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def poll(self, *, capacity: int) -> Message | None:
        """Wait for a message; None: none came. `capacity`: runners that the set can have in all."""
        what = f"wait for messages of scale set {self.set_id}"
        reply = await self._queued(
            "GET", what, capacity=capacity, after=self.last_message, timeout=POLL_TIMEOUT
        )
        if reply.status == _NOTHING or reply.content in _EMPTY:
            return None
        message: Message = _read(reply, Message, what)
        self.last_message = message.message_id
        return message

    async def refresh(self) -> Statistics | None:
        """Renew the session; return fresh statistics of the set."""
        await self._renew(self.current.message_queue_access_token)
        return self.current.statistics

    async def acknowledge(self, message_id: int) -> None:
        """Delete a message, once what it asks for is durable. A missing one counts as deleted."""
        with suppress(SessionMissing):
            await self._queued("DELETE", "acknowledge a message", message_id=message_id)

    async def acquire(self, request_ids: Sequence[int]) -> Sequence[int]:
        """Take offered jobs (GHES); return the ids of those that are ours now."""
        what = f"acquire jobs for scale set {self.set_id}"
        base = await self.service.service_url(self.scope)
        url = httpx.URL(f"{base}{_SETS}/{self.set_id}/acquirejobs").copy_merge_params(
            {"api-version": VERSION}
        )
        reply = await self._renewing("POST", url, what, body=list(request_ids))
        won: Listed[int] = _read(reply, Listed[int], what)
        return won.value

    async def acquirable(self) -> Sequence[int]:
        """Return the ids of offered jobs (GHES), whether their message was seen or not."""
        what = f"list the jobs that scale set {self.set_id} can acquire"
        path = f"{_SETS}/{self.set_id}/acquirablejobs"
        reply = await self.service.call("GET", path, what, scope=self.scope)
        if not reply.content:
            return ()
        found: Listed[AcquirableJob] = _read(reply, Listed[AcquirableJob], what)
        return [each.runner_request_id for each in found.value if each.runner_request_id]

    async def close(self) -> None:
        """Close the session; one that GitHub dropped counts as closed."""
        path = f"{_SETS}/{self.set_id}/sessions/{self.current.session_id}"
        with suppress(SessionMissing):
            await self.service.call("DELETE", path, "close a session", scope=self.scope)

    async def _queued(
        self,
        method: str,
        what: str,
        *,
        message_id: int | None = None,
        capacity: int = 0,
        after: int = 0,
        timeout: float = 15.0,
    ) -> Reply:
        if not self.current.message_queue_url:
            raise SessionMissing(f"cannot {what}: the session came without the address of its queue")
        url = httpx.URL(self.current.message_queue_url)
        headers = {"Accept": f"application/json; api-version={VERSION}"}
        if message_id is not None:
            url = url.copy_with(path=f"{url.path.rstrip('/')}/{message_id}")
        else:
            headers["X-ScaleSetMaxCapacity"] = str(max(0, capacity))
            url = url.copy_merge_params({"lastMessageId": str(after)}) if after else url
        try:
            return await self._renewing(method, url, what, headers=headers, timeout=timeout)
        except Gone as error:
            raise SessionMissing(str(error)) from error

    async def _renewing(self, method: str, url: httpx.URL, what: str, **more: Any) -> Reply:
        token = self.current.message_queue_access_token
        try:
            return await self.service.send(method, url, what, token=token, **more)
        except TokenEnded:
            await self._renew(token)
        try:
            token = self.current.message_queue_access_token
            return await self.service.send(method, url, what, token=token, **more)
        except TokenEnded as error:
            raise SessionMissing(f"cannot {what}: GitHub refuses a fresh token of the session") from error

    async def _renew(self, refused: str) -> None:
        async with self._turn:
            if self.current.message_queue_access_token != refused:
                return
            what = f"renew the session of scale set {self.set_id}"
            path = f"{_SETS}/{self.set_id}/sessions/{self.current.session_id}"
            self.current = _read(
                await self.service.call("PATCH", path, what, scope=self.scope), Session, what
            )


def _body(spec: SetSpec, group_id: int) -> dict[str, Any]:
    return {
        "name": spec.name,
        "runnerGroupId": group_id,
        "labels": [{"type": "System", "name": each} for each in spec.all_labels],
        "RunnerSetting": {"disableUpdate": True},
    }


def _read(reply: Reply, shape: Any, what: str) -> Any:
    try:
        return decoded(reply.content, shape)
    except ValueError as error:
        raise unreadable(what) from error
