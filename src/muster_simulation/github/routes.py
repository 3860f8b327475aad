"""The REST API over the world, and the few calls that its runners make. One function per path."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar
from urllib.parse import parse_qs, urlsplit

from muster_simulation.github import service
from muster_simulation.github.exchange import Asked, Handler, Lost, Said
from muster_simulation.github.state import LASTS, GitHubState, Job, Run, Runner, etag

T = TypeVar("T")

POLL_MOST = 5.0
NAME_MAX = 64


def answer(world: GitHubState, method: str, target: str, headers: Mapping[str, str], body: bytes) -> Said:
    """Answer a request. Raises Lost."""
    parts = urlsplit(target)
    # Enterprise servers have their API below /api/v3.
    path = parts.path.removeprefix("/api/v3")
    with world.changed:
        fault = next((each for each in world.faults if each.takes(method, path)), None)
    if fault is not None and not fault.performed:
        world.calls.append((method, path, fault.status))
        if not fault.status:
            raise Lost
        data = {"message": fault.message} if fault.body is None else fault.body
        return Said(status=fault.status, data=data, headers=fault.headers)
    scheme, _, authorization = headers.get("authorization", "").partition(" ")
    asked = Asked(
        method=method,
        path=path,
        query={name: values[0] for name, values in parse_qs(parts.query).items()},
        authorization=authorization,
        scheme=scheme,
        headers=headers,
        body=json.loads(body) if body else None,
    )
    said = _routed(world, asked)
    if fault is not None:
        world.calls.append((method, path, 0))
        raise Lost
    said = _limited(world, asked, _conditional(method, path, said, headers.get("if-none-match")))
    world.calls.append((method, path, said.status))
    return said


def _limited(world: GitHubState, asked: Asked, said: Said) -> Said:
    """Return the headers of the primary limit. An unchanged answer costs nothing of it."""
    if world.limit is None or asked.path.startswith(service.ROOT):
        return said
    spent = world.spent.get(asked.authorization, 0) + (said.status != 304)
    world.spent[asked.authorization] = min(spent, world.limit)
    left = {"limit": world.limit, "remaining": max(0, world.limit - spent), "reset": int(world.resets_at)}
    headers = {f"x-ratelimit-{name}": str(value) for name, value in left.items()}
    if spent > world.limit:
        return Said(status=403, data={"message": "API rate limit exceeded"}, headers=headers)
    return replace(said, headers={**said.headers, **headers})


def _conditional(method: str, path: str, said: Said, known: str | None) -> Said:
    if method != "GET" or said.status != 200 or path.startswith(service.ROOT):
        return said
    tag = etag(said.body)
    if known == tag:
        return Said(status=304, headers={"etag": tag})
    return Said(status=said.status, data=said.data, headers={**said.headers, "etag": tag})


def _routed(world: GitHubState, asked: Asked) -> Said:
    for method, pattern, handler in _ROUTES:
        found = re.fullmatch(pattern, asked.path)
        if method == asked.method and found:
            return handler(world, asked, **found.groupdict())
    return _missing()


def _missing() -> Said:
    return Said(status=404, data={"message": "Not Found"})


def _refused(status: int, message: str) -> Said:
    return Said(status=status, data={"message": message})


# --- who asks ----------------------------------------------------------------------------------------


def _guarded(handler: Handler) -> Handler:
    def guarded(world: GitHubState, asked: Asked, **named: str) -> Said:
        owner = next(iter(named.values())).partition("/")[0]
        scope = named.get("scope") or named.get("org") or named.get("repository") or ""
        lent = world.lent.get(asked.authorization)
        if asked.authorization not in world.tokens:
            if lent is None or lent[1] <= world.now():
                return _refused(401, "Bad credentials")
            if world.installations.get(lent[0], ("", ""))[1].lower() != owner.lower():
                return _missing()
        if scope in world.missing:
            return _missing()
        return handler(world, asked, **named)

    return guarded


def _app(world: GitHubState, asked: Asked) -> str | None:
    import jwt  # noqa: PLC0415 — only for apps

    for name, key in world.apps.items():
        try:
            claims = jwt.decode(
                asked.authorization,
                key,
                algorithms=["RS256"],
                options={"verify_exp": False, "verify_iat": False},
            )
        except jwt.InvalidTokenError:
            continue
        now = world.now()
        if claims.get("iss") == name and claims["iat"] <= now < claims["exp"] <= now + 600:
            return name
    return None


def _installation(world: GitHubState, asked: Asked, scope: str) -> Said:
    name = _app(world, asked)
    if name is None:
        return _refused(401, "A JSON web token could not be decoded")
    owner = scope.partition("/")[0].lower()
    for number, (app, account) in world.installations.items():
        if app == name and account.lower() == owner:
            return Said(status=200, data={"id": number, "account": {"login": account}})
    return _missing()


def _lend(world: GitHubState, asked: Asked, number: str) -> Said:
    name = _app(world, asked)
    if name is None:
        return _refused(401, "A JSON web token could not be decoded")
    if world.installations.get(int(number), ("", ""))[0] != name:
        return _missing()
    token, until = f"ghs_{world.number()}", world.now() + LASTS
    world.lent[token] = (int(number), until)
    return Said(status=201, data={"token": token, "expires_at": _iso(until)})


def _iso(at: float) -> str:
    from datetime import UTC, datetime  # noqa: PLC0415

    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


# --- runners -----------------------------------------------------------------------------------------


def _shown(world: GitHubState, runner: Runner) -> dict[str, Any]:
    return {
        "id": runner.id,
        "name": runner.name,
        "os": "linux",
        "status": "online" if world.online(runner) else "offline",
        "busy": runner.busy,
        "ephemeral": runner.ephemeral,
        "labels": [{"name": label, "type": "custom"} for label in runner.labels],
    }


def _listed(world: GitHubState, asked: Asked, scope: str) -> Said:
    found = [runner for runner in world.of(scope) if asked.query.get("name") in (None, runner.name)]
    shown = [_shown(world, runner) for runner in _page(asked, found)]
    return Said(status=200, data={"total_count": len(found), "runners": shown})


def _page(asked: Asked, found: Sequence[T]) -> Sequence[T]:
    page, size = int(asked.query.get("page", "1")), int(asked.query.get("per_page", "30"))
    return found[(page - 1) * size : page * size]


def _jit(world: GitHubState, asked: Asked, scope: str) -> Said:
    body = asked.body or {}
    name, labels = str(body.get("name", "")), body.get("labels")
    groups = world.groups_of(scope).values()
    if not 0 < len(name) <= NAME_MAX or not labels or body.get("runner_group_id") not in groups:
        return _refused(422, "Validation Failed")
    if world.named(scope, name) is not None:
        return _refused(409, f"Already exists - A runner with the name '{name}' already exists.")
    runner = world.register(scope, name, labels, group=body["runner_group_id"], ephemeral=True)
    data = {"runner": _shown(world, runner), "encoded_jit_config": world.just_in_time(runner)}
    return Said(status=201, data=data)


def _registration(world: GitHubState, asked: Asked, scope: str) -> Said:
    token = world.registration(scope)
    return Said(status=201, data={"token": token, "expires_at": _iso(world.registrations[token][1])})


def _removed(world: GitHubState, asked: Asked, scope: str, runner_id: str) -> Said:
    runner = world.runners.get(int(runner_id))
    if runner is None or runner.scope.lower() != scope.lower():
        return _missing()
    if runner.busy and world.online(runner):
        return _refused(422, f"Bad request - Runner '{runner.name}' is currently running a job.")
    world.remove(runner)
    return Said(status=204)


def _groups(world: GitHubState, asked: Asked, org: str) -> Said:
    named = world.groups_of(org)
    found = [
        {"id": number, "name": name, "allows_public_repositories": number not in world.sets.private_groups}
        for name, number in named.items()
    ]
    return Said(status=200, data={"total_count": len(found), "runner_groups": found})


# --- runs --------------------------------------------------------------------------------------------


def _run(world: GitHubState, run: Run) -> dict[str, Any]:
    status = world.status(run)
    over = "cancelled" if run.cancelled else world.conclusion(run)
    return {
        "id": run.id,
        "status": status,
        "conclusion": over if status == "completed" else None,
        "run_attempt": run.attempt,
    }


def _one_run(world: GitHubState, asked: Asked, repository: str, run_id: str) -> Said:
    run = world.runs.get((repository, int(run_id)))
    return _missing() if run is None else Said(status=200, data=_run(world, run))


def _all_runs(world: GitHubState, asked: Asked, repository: str) -> Said:
    shown = [_run(world, run) for (name, _), run in world.runs.items() if name == repository]
    wanted = asked.query.get("status")
    found = [each for each in reversed(shown) if wanted in (None, each["status"])]
    return Said(status=200, data={"total_count": len(found), "workflow_runs": _page(asked, found)})


def _jobs(world: GitHubState, asked: Asked, repository: str, run_id: str) -> Said:
    run = world.runs.get((repository, int(run_id)))
    if run is None:
        return _missing()
    found = world.latest(run)
    return Said(
        status=200, data={"total_count": len(found), "jobs": [_job(job) for job in _page(asked, found)]}
    )


def _one_job(world: GitHubState, asked: Asked, repository: str, job_id: str) -> Said:
    found = world.job(repository, int(job_id))
    return _missing() if found is None else Said(status=200, data=_job(found))


def _job(job: Job) -> dict[str, Any]:
    started = job.status != "queued"
    return {
        "id": job.id,
        "run_id": job.run_id,
        "name": job.name,
        "workflow_name": "CI",
        "status": job.status,
        "conclusion": job.conclusion,
        "created_at": _iso(job.queued_at),
        "started_at": _iso(job.started_at or job.queued_at),
        "completed_at": _iso(job.finished_at or job.queued_at) if job.status == "completed" else None,
        "labels": list(job.labels),
        "run_attempt": job.attempt,
        "runner_id": job.runner_id if started and job.runner else None,
        "runner_name": job.runner if started and job.runner else None,
    }


def _rerun_failed(world: GitHubState, asked: Asked, repository: str, run_id: str) -> Said:
    run = world.runs.get((repository, int(run_id)))
    return _again(world, run, None)


def _rerun_job(world: GitHubState, asked: Asked, repository: str, job_id: str) -> Said:
    job = world.job(repository, int(job_id))
    run = None if job is None else world.runs.get((repository, job.run_id))
    return _again(world, run, job)


def _again(world: GitHubState, run: Run | None, job: Job | None) -> Said:
    """Begin another attempt. A run that is cancelled may be begun again, one without a failure may not."""
    if run is None:
        return _missing()
    if world.status(run) != "completed":
        return _refused(403, "This workflow is already running")
    if job is not None and job.attempt != run.attempt:
        return _refused(403, "This workflow job cannot be retried")
    if not run.cancelled and all(each.conclusion in ("success", "skipped") for each in world.latest(run)):
        return _refused(403, "This workflow run cannot be retried")
    world.rerun_failed(run, only=job)
    return Said(status=201, data={})


# --- what runners ask (the real ones speak otherwise) --------------------------------------------------


def _register(world: GitHubState, asked: Asked) -> Said:
    body = asked.body
    scope, until = world.registrations.get(body["token"], ("", 0.0))
    if until <= world.now() or scope.lower() != body["scope"].lower():
        return _refused(404, "Not Found")
    earlier = world.named(scope, body["name"])
    if earlier is not None:
        if not body["replace"]:
            return _refused(409, "Already exists")
        world.remove(earlier)
    group = {"": 1, **world.groups_of(scope)}.get(body["group"])
    if group is None:
        return _refused(422, f"Could not find any self-hosted runner group named {body['group']!r}.")
    runner = world.register(scope, body["name"], body["labels"], group=group, ephemeral=body["ephemeral"])
    return Said(status=201, data={"id": runner.id, "credential": runner.credential})


def _session(world: GitHubState, asked: Asked) -> Said:
    runner = world.holder(asked.authorization)
    if runner is None:
        return _refused(404, "The runner registration has been deleted")
    if asked.method == "DELETE":
        runner.session = False
        return Said(status=204)
    world.connect(runner)
    return Said(status=200, data={"name": runner.name})


def _take(world: GitHubState, asked: Asked) -> Said:
    runner = world.holder(asked.authorization)
    if runner is None:
        return _refused(404, "The runner registration has been deleted")
    job = world.take(runner, POLL_MOST)
    if job is None:
        return Said(status=204)
    return Said(status=200, data={"id": job.id, "name": job.name, "script": job.script})


def _finish(world: GitHubState, asked: Asked, job_id: str) -> Said:
    runner = world.holder(asked.authorization)
    if runner is None:
        return _refused(404, "The runner registration has been deleted")
    world.finish(runner, int(job_id), asked.body["conclusion"], asked.body["output"])
    return Said(status=204)


_RUNNERS = r"/(?:repos/|orgs/|(?=enterprises/))(?P<scope>[^/]+(?:/[^/]+)?)/actions/runners"
_RUNS = r"/repos/(?P<repository>[^/]+/[^/]+)/actions/runs"
_JOBS = r"/repos/(?P<repository>[^/]+/[^/]+)/actions/jobs"
_ROUTES: tuple[tuple[str, str, Handler], ...] = (
    ("GET", r"/(?:repos|orgs)/(?P<scope>[^/]+(?:/[^/]+)?)/installation", _installation),
    ("POST", r"/app/installations/(?P<number>\d+)/access_tokens", _lend),
    ("GET", _RUNNERS, _guarded(_listed)),
    ("POST", _RUNNERS + r"/generate-jitconfig", _guarded(_jit)),
    ("POST", _RUNNERS + r"/registration-token", _guarded(_registration)),
    ("DELETE", _RUNNERS + r"/(?P<runner_id>\d+)", _guarded(_removed)),
    ("GET", r"/(?:orgs/|(?=enterprises/))(?P<org>[^/]+(?:/[^/]+)?)/actions/runner-groups", _guarded(_groups)),
    ("GET", _RUNS, _guarded(_all_runs)),
    ("GET", _RUNS + r"/(?P<run_id>\d+)", _guarded(_one_run)),
    ("GET", _RUNS + r"/(?P<run_id>\d+)/jobs", _guarded(_jobs)),
    ("POST", _RUNS + r"/(?P<run_id>\d+)/rerun-failed-jobs", _guarded(_rerun_failed)),
    ("GET", _JOBS + r"/(?P<job_id>\d+)", _guarded(_one_job)),
    ("POST", _JOBS + r"/(?P<job_id>\d+)/rerun", _guarded(_rerun_job)),
    *service.ROUTES,
    ("POST", "/_runner/register", _register),
    ("POST", "/_runner/session", _session),
    ("DELETE", "/_runner/session", _session),
    ("POST", "/_runner/jobs", _take),
    ("POST", r"/_runner/jobs/(?P<job_id>\d+)", _finish),
)
