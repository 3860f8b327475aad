"""Read and write runners and workflow runs on GitHub. Only this module knows its paths and fields.

GitHub is slow, limits the rate, and is right in the end. Every method raises Throttled (nothing happened;
later), Refused (credentials, rights, names: asking again won't help) or Uncertain (unknown; may be repeated).
"""

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from muster.domain.errors import Refused, Uncertain
from muster.domain.reasons import Reason
from muster.integrations.github.api import GitHubApi
from muster.integrations.github.responses import Answer, unreadable
from muster.integrations.github.runners import Runner, RunStatus, Scope, WorkflowJob, WorkflowRun
from muster.ports.clock import Clock
from muster.single_flight import SingleFlight

DEFAULT_GROUP = 1
WORK = "_work"
FINE_FOR = 60.0
REFUSED_FOR = 15.0
"""For how long an answer to "could runners be registered there?" holds."""
GROUPS_FOR = 600.0
ACTIVE = ("queued", "in_progress")
ACTIVE_PAGES = 10
"""Of runs of one kind; GitHub itself lists no more than a thousand."""
_GONE, _TAKEN, _BUSY = 404, 409, 422


class GitHubRegistry:
    def __init__(self, api: GitHubApi, clock: Clock) -> None:
        self._api = api
        self._clock = clock
        self._looks: SingleFlight[Scope, Sequence[Runner]] = SingleFlight()
        self._checked: dict[tuple[Scope, str], tuple[float, Refused | None]] = {}
        self._groups: dict[tuple[Scope, str], tuple[float, int]] = {}

    # --- runners ----------------------------------------------------------------------------------

    async def check(self, scope: Scope, *, group: str) -> None:
        """Check whether runners could be registered there now."""
        until, refusal = self._checked.get((scope, group), (0.0, None))
        if self._clock.now() >= until:
            refusal = await self._refusal(scope, group)
            pause = FINE_FOR if refusal is None else REFUSED_FOR
            self._checked[scope, group] = (self._clock.now() + pause, refusal)
        if refusal is not None:
            raise Refused(str(refusal), refusal.reason)

    async def _refusal(self, scope: Scope, group: str) -> Refused | None:
        try:
            await self._api.get(_runners(scope), f"look at the runners of {scope}", scope=scope, params=_ONE)
            await self._group(scope, group)
        except Refused as refusal:
            return refusal
        return None

    async def just_in_time(self, scope: Scope, *, name: str, labels: Sequence[str], group: str) -> str:
        """Register an ephemeral runner; gives its configuration, a secret. A runner of that name which is
        there already is replaced: what was given for it is worthless from then on."""
        what = f"register a runner for {scope}"
        body = {
            "name": name,
            "runner_group_id": await self._group(scope, group),
            "labels": list(labels),
            "work_folder": WORK,
        }
        path = f"{_runners(scope)}/generate-jitconfig"
        answer = await self._send("POST", path, what, scope, body)
        if answer.status == _TAKEN:
            # An earlier answer was lost, or its receiver is gone.
            earlier = await self.find(scope, name)
            if earlier is not None and not await self.remove(scope, earlier.id):
                raise Uncertain(f"cannot {what}: the one named {name} is busy")
            answer = await self._send("POST", path, what, scope, body)
        return _text(self._read(answer, what, scope, group), "encoded_jit_config", what)

    async def registration_token(self, scope: Scope) -> str:
        """Return a short-lived secret with which a runner registers itself."""
        what = f"get a registration token for {scope}"
        answer = await self._send("POST", f"{_runners(scope)}/registration-token", what, scope)
        return _text(self._read(answer, what, scope), "token", what)

    async def runners(self, scope: Scope) -> Sequence[Runner]:
        """Return all runners, as they are at some moment after the call."""
        return await self._looks.get_later(scope, lambda: self._list(scope))

    async def _list(self, scope: Scope) -> Sequence[Runner]:
        what = f"list the runners of {scope}"
        return tuple(
            _runner(each, what)
            for each in await self._api.pages(_runners(scope), what, scope=scope, items="runners")
        )

    async def find(self, scope: Scope, name: str) -> Runner | None:
        what = f"look for a runner of {scope}"
        data = await self._api.get(_runners(scope), what, scope=scope, params={"name": name, **_PAGE})
        found = (_runner(each, what) for each in _listed(data, "runners", what))
        return next((runner for runner in found if runner.name == name), None)

    async def remove(self, scope: Scope, runner_id: int) -> bool:
        """Remove a runner; a missing one counts as removed. False: it is busy and can't be removed now."""
        what = f"remove a runner of {scope}"
        answer = await self._send("DELETE", f"{_runners(scope)}/{runner_id}", what, scope)
        if answer.status in (_GONE, _BUSY):
            return answer.status == _GONE
        self._api.read(answer, what)
        return True

    async def _group(self, scope: Scope, name: str) -> int:
        if not name:
            return DEFAULT_GROUP
        until, known = self._groups.get((scope, name), (0.0, 0))
        if self._clock.now() < until:
            return known
        what = f"look for the runner group {name!r} of {scope.owner}"
        if scope.repository:
            raise Refused(f"cannot {what}: runners of a repository have no groups", Reason.PROVIDER_REFUSED)
        listed = await self._all_groups(scope, what)
        try:
            ids = {str(each["name"]): int(each["id"]) for each in listed}
        except (KeyError, TypeError, ValueError) as error:
            raise unreadable(what) from error
        if name not in ids:
            words = f"cannot {what}: there are {', '.join(sorted(ids)) or 'none'}"
            raise Refused(words, Reason.PROVIDER_REFUSED)
        self._groups[scope, name] = (self._clock.now() + GROUPS_FOR, ids[name])
        return ids[name]

    async def _all_groups(self, scope: Scope, what: str) -> Sequence[Any]:
        path = f"{scope.api_path}/actions/runner-groups"
        return await self._api.pages(path, what, scope=scope, items="runner_groups")

    async def refuses_public(self, scope: Scope, *, group: str) -> bool:
        """Return whether runners of the group get no jobs of public repositories, as far as can be seen."""
        if scope.repository:
            return False
        what = f"look at the runner groups of {scope.owner}"
        for each in await self._all_groups(scope, what):
            if isinstance(each, dict) and (
                each.get("name") == group if group else each.get("id") == DEFAULT_GROUP
            ):
                return each.get("allows_public_repositories") is False
        return False

    async def _send(
        self, method: str, path: str, what: str, scope: Scope, body: dict[str, Any] | None = None
    ) -> Answer:
        try:
            return await self._api.send(method, path, what, scope=scope, body=body)
        except Refused as refusal:
            self._found_out(scope, "", refusal)
            raise

    def _read(self, answer: Answer, what: str, scope: Scope, group: str = "") -> Any:
        try:
            return self._api.read(answer, what)
        except Refused as refusal:
            self._found_out(scope, group, refusal)
            raise

    def _found_out(self, scope: Scope, group: str, refusal: Refused) -> None:
        """Remember a refusal, so that the next check is answered without a try."""
        self._checked[scope, group] = (self._clock.now() + REFUSED_FOR, refusal)

    # --- workflow runs ----------------------------------------------------------------------------

    async def run(self, repository: str, run_id: int) -> WorkflowRun | None:
        """Return the run's latest attempt, or None if there is no such run or it can't be seen."""
        what, scope = f"look up run {run_id} of {repository}", Scope.named(repository)
        path = f"/repos/{repository}/actions/runs/{run_id}"
        answer = await self._api.look(path, what, scope=scope, patient=True)
        return None if answer.status == _GONE else _run(repository, self._api.read(answer, what), what)

    async def can_see(self, repository: str) -> bool:
        """Return whether runs of the repository can be read at all."""
        what, scope = f"look at the runs of {repository}", Scope.named(repository)
        path = f"/repos/{repository}/actions/runs"
        answer = await self._api.look(path, what, scope=scope, params=_ONE, patient=True)
        if answer.status == _GONE:
            return False
        self._api.read(answer, what)
        return True

    async def active(self, repository: str) -> Sequence[WorkflowRun]:
        """Return runs that wait or are under way, at most a thousand of each, newest first."""
        what, scope = f"list the runs of {repository}", Scope.named(repository)
        found: dict[int, WorkflowRun] = {}
        for status in ACTIVE:
            listed = await self._api.pages(
                f"/repos/{repository}/actions/runs",
                what,
                scope=scope,
                items="workflow_runs",
                params={"status": status},
                patient=True,
                most=ACTIVE_PAGES,
            )
            for each in listed:
                run = _run(repository, each, what)
                found[run.run_id] = run
        return sorted(found.values(), key=lambda run: -run.run_id)

    async def workflow_jobs(self, repository: str, run_id: int) -> Sequence[WorkflowJob]:
        """Return the jobs of the run's latest attempt."""
        what, scope = f"list the jobs of run {run_id} of {repository}", Scope.named(repository)
        listed = await self._api.pages(
            f"/repos/{repository}/actions/runs/{run_id}/jobs",
            what,
            scope=scope,
            items="jobs",
            params={"filter": "latest"},
            patient=True,
        )
        return tuple(_workflow_job(each, what) for each in listed)

    async def workflow_job(self, repository: str, job_id: int) -> WorkflowJob | None:
        """Return a job, or None if there is no such job or it can't be seen."""
        what, scope = f"look up job {job_id} of {repository}", Scope.named(repository)
        path = f"/repos/{repository}/actions/jobs/{job_id}"
        answer = await self._api.look(path, what, scope=scope, patient=True)
        return None if answer.status == _GONE else _workflow_job(self._api.read(answer, what), what)

    async def rerun_failed(self, repository: str, run_id: int) -> None:
        """Run the failed jobs of a run that is over again, with what depends on them. Not to be repeated."""
        await self._rerun(
            repository, f"runs/{run_id}/rerun-failed-jobs", f"re-run failed jobs of run {run_id}"
        )

    async def rerun_job(self, repository: str, job_id: int) -> None:
        """Run one job of a run that is over again, with what depends on it. Not to be repeated."""
        await self._rerun(repository, f"jobs/{job_id}/rerun", f"re-run job {job_id}")

    async def _rerun(self, repository: str, path: str, what: str) -> None:
        words, scope = f"{what} of {repository}", Scope.named(repository)
        answer = await self._api.send("POST", f"/repos/{repository}/actions/{path}", words, scope=scope)
        self._api.read(answer, words)


_ONE = {"per_page": "1"}
_PAGE = {"per_page": "100"}


def _runners(scope: Scope) -> str:
    return f"{scope.api_path}/actions/runners"


def _listed(data: Any, items: str, what: str) -> Iterator[Any]:
    if not isinstance(data, dict) or not isinstance(data.get(items), list):
        raise unreadable(what)
    yield from data[items]


def _text(data: Any, field: str, what: str) -> str:
    value = data.get(field) if isinstance(data, dict) else None
    if not isinstance(value, str) or not value:
        raise unreadable(what)
    return value


def _runner(data: Any, what: str) -> Runner:
    try:
        return Runner(
            id=int(data["id"]),
            name=str(data["name"]),
            online=data["status"] == "online",
            busy=bool(data["busy"]),
            labels=tuple(str(each["name"]).lower() for each in data["labels"]),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise unreadable(what) from error


def _run(repository: str, data: Any, what: str) -> WorkflowRun:
    try:
        completed = data["status"] == "completed"
        return WorkflowRun(
            repository=repository,
            run_id=int(data["id"]),
            attempt=int(data.get("run_attempt") or 1),
            status=RunStatus.COMPLETED if completed else RunStatus.ACTIVE,
            conclusion=str(data.get("conclusion") or "") if completed else "",
        )
    except (KeyError, TypeError, ValueError) as error:
        raise unreadable(what) from error


def _workflow_job(data: Any, what: str) -> WorkflowJob:
    try:
        return msgspec.convert(data, WorkflowJob)
    except msgspec.ValidationError as error:
        raise unreadable(what) from error
