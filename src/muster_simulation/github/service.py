"""The Actions service: what GitHub's scale sets are asked, with the tokens that each call wants."""

import json
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from muster_simulation.github.exchange import Asked, Handler, Said
from muster_simulation.github.scalesets import ScaleSet, Session

if TYPE_CHECKING:
    from muster_simulation.github.state import GitHubState, Runner

ROOT = "/_actions"
CAPACITY = "x-scalesetmaxcapacity"
VERSION = "6.0-preview"


def _problem(status: int, name: str, words: str) -> Said:
    kind = f"GitHub.Actions.Runtime.WebApi.{name}, GitHub.Actions.Runtime.WebApi"
    return Said(status=status, data={"typeName": kind, "typeKey": name, "message": words})


def _register(world: "GitHubState", asked: Asked) -> Said:
    scope, until = world.registrations.get(asked.authorization, ("", 0.0))
    named = urlsplit(str((asked.body or {}).get("url", ""))).path.strip("/")
    if asked.scheme != "RemoteAuth" or until <= world.now() or named.lower() != scope.lower():
        return Said(status=401, data={"message": "Invalid registration token"})
    token = world.sets.token("admin", scope)
    return Said(status=200, data={"url": f"{world.url}{ROOT}/", "token": token})


def _admin(handler: Handler) -> Handler:
    """Let the call through with the admin token of a scope, which the handler gets."""

    def guarded(world: "GitHubState", asked: Asked, **named: str) -> Said:
        token = world.sets.tokens.get(asked.authorization)
        if token is None or token.kind != "admin" or token.until <= world.now():
            return _problem(401, "InvalidTokenException", "The token is not valid.")
        if asked.query.get("api-version") != VERSION:
            return Said(status=400, data={"message": "No api-version was supplied"})
        said = handler(world, asked, token.about, **named)
        return Said(status=said.status, data=said.data, headers=said.headers, marked=world.sets.marks)

    return guarded


def _one(handler: Handler) -> Handler:
    """Find the set that the path names, in the scope of the token."""

    def found(world: "GitHubState", asked: Asked, scope: str, set_id: str, **named: str) -> Said:
        scale_set = world.sets.known.get(int(set_id))
        if scale_set is None or scale_set.scope.lower() != scope.lower():
            return _problem(404, "RunnerScaleSetNotFoundException", f"No scale set with id {set_id}.")
        return handler(world, asked, scale_set, **named)

    return _admin(found)


def _shown(world: "GitHubState", each: ScaleSet) -> dict[str, Any]:
    names = {number: name for name, number in _groups_of(world, each.scope).items()}
    return {
        "id": each.id,
        "name": each.name,
        "runnerGroupId": each.group,
        "runnerGroupName": names.get(each.group, ""),
        "labels": [{"type": "System", "name": label} for label in each.labels],
        "RunnerSetting": {"disableUpdate": each.disable_update},
        "createdOn": "2026-01-01T00:00:00.0000000Z",
        "statistics": world.sets.statistics(each),
    }


def _groups_of(world: "GitHubState", scope: str) -> dict[str, int]:
    return world.groups_of(scope)


def _list(found: list[Any]) -> Said:
    return Said(status=200, data={"count": len(found), "value": found})


def _sets(world: "GitHubState", asked: Asked, scope: str) -> Said:
    group, name = asked.query.get("runnerGroupId"), asked.query.get("name")
    found = [each for each in world.sets.of(scope) if group in (None, str(each.group))]
    return _list([_shown(world, each) for each in found if name in (None, each.name)])


def _make(world: "GitHubState", asked: Asked, scope: str) -> Said:
    body = asked.body
    name, group = str(body["name"]), int(body["runnerGroupId"])
    if any(each.name == name and each.group == group for each in world.sets.of(scope)):
        return _problem(400, "RunnerScaleSetExistsException", f"The scale set {name} exists.")
    if group not in _groups_of(world, scope).values():
        return _problem(404, "RunnerGroupNotFoundException", f"No runner group with id {group}.")
    labels = tuple(str(each["name"]) for each in body.get("labels") or ())
    return Said(status=200, data=_shown(world, world.sets.make(scope, name, group, labels)))


def _change(world: "GitHubState", asked: Asked, scale_set: ScaleSet) -> Said:
    if asked.body.get("labels") and not world.sets.drops_labels:
        scale_set.labels = tuple(str(each["name"]) for each in asked.body["labels"])
    return Said(status=200, data=_shown(world, scale_set))


def _delete(world: "GitHubState", _: Asked, scale_set: ScaleSet) -> Said:
    world.sets.vanish(scale_set)
    return Said(status=204)


def _groups(world: "GitHubState", asked: Asked, scope: str) -> Said:
    wanted = asked.query.get("groupName")
    named = _groups_of(world, scope).items()
    return _list(
        [
            {"id": number, "name": name, "isDefaultGroup": number == 1}
            for name, number in named
            if wanted in (None, name)
        ]
    )


# --- sessions and messages ---------------------------------------------------------------------------


def _session_shown(world: "GitHubState", scale_set: ScaleSet, session: Session) -> Said:
    queue = "" if world.sets.hides_queue else f"{world.url}{ROOT}/queue/{scale_set.id}?session={session.id}"
    data = {
        "sessionId": session.id,
        "ownerName": session.owner,
        "runnerScaleSet": _shown(world, scale_set),
        "messageQueueUrl": queue,
        "messageQueueAccessToken": world.sets.token("queue", session.id),
        "statistics": world.sets.statistics(scale_set),
    }
    return Said(status=200, data=data)


def _open(world: "GitHubState", asked: Asked, scale_set: ScaleSet) -> Said:
    session = world.sets.open(scale_set, str(asked.body["ownerName"]))
    if session is None:
        words = f"The runner scale set {scale_set.name} already has an active session."
        return _problem(409, "RunnerScaleSetSessionConflictException", words)
    return _session_shown(world, scale_set, session)


def _refresh(world: "GitHubState", _: Asked, scale_set: ScaleSet, session_id: str) -> Said:
    session = scale_set.session
    if session is None or session.id != session_id or not world.sets.alive(scale_set):
        return _problem(404, "RunnerAdminException", "The session was not found.")
    session.seen_at = world.now()
    return _session_shown(world, scale_set, session)


def _close(world: "GitHubState", _: Asked, scale_set: ScaleSet, session_id: str) -> Said:
    if scale_set.session is None or scale_set.session.id != session_id:
        words = f"The session identifier {session_id} is not valid."
        return _problem(400, "RunnerScaleSetSessionExpiredException", words)
    world.sets.evict(scale_set)
    return Said(status=204)


def _queue(handler: Handler) -> Handler:
    """Let the call through with the queue token of the set's living session."""

    def guarded(world: "GitHubState", asked: Asked, set_id: str, **named: str) -> Said:
        token = world.sets.tokens.get(asked.authorization)
        if token is None or token.kind != "queue" or token.until <= world.now():
            return Said(status=401)
        scale_set = world.sets.known.get(int(set_id))
        session = None if scale_set is None else scale_set.session
        if scale_set is None or session is None or session.id != token.about:
            return Said(status=404)
        if not world.sets.alive(scale_set):
            return Said(status=410)
        return handler(world, asked, scale_set, session, **named)

    return guarded


def _poll(world: "GitHubState", asked: Asked, scale_set: ScaleSet, session: Session) -> Said:
    capacity = asked.headers.get(CAPACITY, "")
    if not capacity.isdigit() or VERSION not in asked.headers.get("accept", ""):
        return Said(status=400, data={"message": f"{CAPACITY} or the version is missing"})
    after = int(asked.query.get("lastMessageId", "0"))
    if world.sets.empty_bodies:
        world.sets.empty_bodies -= 1
        return Said(status=200)
    found = world.sets.poll(scale_set, session, after=after, capacity=int(capacity))
    if found is None:
        return Said(status=202)
    statistics = world.sets.statistics(scale_set)
    if world.sets.zero_statistics:
        statistics = dict.fromkeys(statistics, 0)
    data = {
        "messageId": found.id,
        "messageType": "RunnerScaleSetJobMessages",
        "body": json.dumps(found.entries),
        "statistics": statistics,
    }
    return Said(status=200, data=data, marked=world.sets.marks)


def _acknowledge(world: "GitHubState", _: Asked, scale_set: ScaleSet, __: Session, message_id: str) -> Said:
    return Said(status=204 if world.sets.delete(scale_set, int(message_id)) else 404)


def _acquire(world: "GitHubState", asked: Asked, scale_set: ScaleSet, _: Session) -> Said:
    if not world.sets.offers:
        return Said(status=404)
    return _list(world.sets.acquire(scale_set, [int(each) for each in asked.body]))


def _acquirable(world: "GitHubState", _: Asked, scale_set: ScaleSet) -> Said:
    if not world.sets.offers:
        return Said(status=404)
    ids = world.sets.acquirable(scale_set)
    return _list([{"runnerRequestId": each} for each in ids]) if ids else Said(status=204)


# --- runners -----------------------------------------------------------------------------------------


def _runner(world: "GitHubState", each: "Runner") -> dict[str, Any]:
    shown = {"id": each.id, "name": each.name, "runnerScaleSetId": each.set_id}
    if world.sets.tells_status:
        shown["status"] = "online" if world.online(each) else "offline"
    return shown


def _jit(world: "GitHubState", asked: Asked, scale_set: ScaleSet) -> Said:
    name = str(asked.body["name"])
    if world.named(scale_set.scope, name) is not None:
        return _problem(409, "AgentExistsException", f"The runner {name} exists.")
    runner = world.register(
        scale_set.scope, name, (), group=scale_set.group, ephemeral=True, set_id=scale_set.id
    )
    data = {"runner": _runner(world, runner), "encodedJITConfig": world.just_in_time(runner)}
    return Said(status=200, data=data)


def _runners(world: "GitHubState", asked: Asked, scope: str) -> Said:
    name = asked.query.get("agentName")
    return _list([_runner(world, each) for each in world.of(scope) if name in (None, each.name)])


def _remove(world: "GitHubState", _: Asked, scope: str, runner_id: str) -> Said:
    runner = world.runners.get(int(runner_id))
    if runner is None or runner.scope.lower() != scope.lower():
        return _problem(404, "AgentNotFoundException", f"No runner with id {runner_id}.")
    if runner.busy and world.online(runner):
        return _problem(400, "JobStillRunningException", f"The runner {runner.name} runs a job.")
    world.remove(runner)
    return Said(status=204)


_APIS = ROOT + "/_apis/"
_SETS = _APIS + "runtime/runnerscalesets"
_SET = _SETS + r"/(?P<set_id>\d+)"
_AGENTS = _APIS + "distributedtask/pools/0/agents"
ROUTES: tuple[tuple[str, str, Handler], ...] = (
    ("POST", "/actions/runner-registration", _register),
    ("GET", _SETS, _admin(_sets)),
    ("POST", _SETS, _admin(_make)),
    ("GET", _SET, _one(lambda world, _, scale_set: Said(status=200, data=_shown(world, scale_set)))),
    ("PATCH", _SET, _one(_change)),
    ("DELETE", _SET, _one(_delete)),
    ("GET", _APIS + "runtime/runnergroups/", _admin(_groups)),
    ("POST", _SET + "/sessions", _one(_open)),
    ("PATCH", _SET + r"/sessions/(?P<session_id>[^/]+)", _one(_refresh)),
    ("DELETE", _SET + r"/sessions/(?P<session_id>[^/]+)", _one(_close)),
    ("POST", _SET + "/acquirejobs", _queue(_acquire)),
    ("GET", _SET + "/acquirablejobs", _one(_acquirable)),
    ("POST", _SET + "/generatejitconfig", _one(_jit)),
    ("GET", _AGENTS, _admin(_runners)),
    ("DELETE", _AGENTS + r"/(?P<runner_id>\d+)", _admin(_remove)),
    ("GET", ROOT + r"/queue/(?P<set_id>\d+)", _queue(_poll)),
    ("DELETE", ROOT + r"/queue/(?P<set_id>\d+)/(?P<message_id>\d+)", _queue(_acknowledge)),
)
