"""What can be asked, as values: each function describes one call and how to read its answer."""

import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar
from urllib.parse import quote

import msgspec

from muster.client.problems import ServerProblem
from muster.client.streams import Stream
from muster.domain.access import Role
from muster.domain.command import Execution
from muster.domain.requests import ProvisionRequest
from muster.domain.template import TemplateSpec
from muster.wire import commands as commands_wire
from muster.wire import nodes as nodes_wire
from muster.wire import provisions
from muster.wire.base import Page, Shape
from muster.wire.boots import Boots, Timeline
from muster.wire.clusters import Cluster, ClusterDetail, ClusterRequest
from muster.wire.commands import Blob, Command
from muster.wire.diagnoses import Bundle
from muster.wire.events import Event
from muster.wire.jobs import Job, JobSummary
from muster.wire.nodes import Node, Pools
from muster.wire.operations import Extension, Operation, Progress, Why
from muster.wire.overview import Overview
from muster.wire.pool_history import HOURS_MOST, PoolHistory
from muster.wire.sign_in import DeviceLogin, DeviceLoginRequest, DeviceToken, DeviceTokenRequest, SignedOut
from muster.wire.templates import Installation, Limits, Pauses, PlanRequest, Template, TemplatePlan
from muster.wire.templates import TemplateSpec as WireSpec
from muster.wire.tokens import Identity, MintedToken, Token, TokenRequest
from muster.wire.webhooks import MessagesRequest, Undelivered

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
ROOT = "/api/v1"
Read = Callable[[bytes], T]
Params = Mapping[str, str | Sequence[str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Call(Generic[T_co]):
    method: str
    path: str
    read: Callable[[bytes], T_co]
    params: Params = field(default_factory=dict)
    body: Shape | None = None
    key: str | None = None
    """The idempotency key. It stays the same when the call is repeated."""

    @property
    def repeatable(self) -> bool:
        return self.method in ("GET", "PUT") or self.key is not None


_decoders: dict[Any, msgspec.json.Decoder[Any]] = {}
"""Made when first used: one command reads few shapes."""


def _into(cls: type[T]) -> Callable[[bytes | str], T]:
    def read(body: bytes | str) -> T:
        decoder = _decoders.get(cls) or _decoders.setdefault(cls, msgspec.json.Decoder(cls))
        try:
            return decoder.decode(body)  # type: ignore[no-any-return]  # of `cls`
        except msgspec.DecodeError as error:
            raise ServerProblem(200, "unknown", f"cannot use the server's answer: {error}") from error

    return read


def _items_of(page: type[Page[T]]) -> Read[tuple[T, ...]]:
    read = _into(page)
    return lambda body: read(body).items


def _get(path: str, read: Read[T], **params: object) -> Call[T]:
    given = {
        name: [str(each) for each in value] if isinstance(value, list | tuple) else str(value)
        for name, value in params.items()
        if value not in (None, (), [])
    }
    return Call(method="GET", path=ROOT + path, read=read, params=given)


def _post(path: str, read: Read[T], body: Shape | None = None, key: str | None = None) -> Call[T]:
    return Call(method="POST", path=ROOT + path, read=read, body=body, key=key)


def _key(given: str | None) -> str:
    return given or secrets.token_urlsafe(16)


def _id(value: str) -> str:
    return quote(value, safe="")


# --- nodes for runs ------------------------------------------------------------------------------


def provision(request: ProvisionRequest, *, key: str | None = None) -> Call[Operation]:
    return _post("/provisions", _into(Operation), provisions.ProvisionRequest.of(request), _key(key))


def release(
    *,
    operation_id: str | None = None,
    assignment_ids: Sequence[str] | None = None,
    run: str | None = None,
    latest: bool = False,
    key: str | None = None,
) -> Call[Operation]:
    body = provisions.ReleaseRequest(
        operation_id=operation_id,
        assignment_ids=None if assignment_ids is None else tuple(assignment_ids),
        run=run,
        latest=latest,
    )
    return _post("/releases", _into(Operation), body, _key(key))


def run(request: ProvisionRequest, execution: Execution, *, key: str | None = None) -> Call[Operation]:
    """Run a command on new nodes."""
    body = provisions.RunRequest(
        provision=provisions.ProvisionRequest.of(request), execution=commands_wire.Execution.of(execution)
    )
    return _post("/runs", _into(Operation), body, _key(key))


def execute(
    execution: Execution,
    *,
    operation_id: str | None = None,
    run: str | None = None,
    node_id: str | None = None,
    indexes: Sequence[int] = (),
    key: str | None = None,
) -> Call[tuple[Command, ...]]:
    body = commands_wire.CommandsRequest(
        operation_id=operation_id,
        run=run,
        node_id=node_id,
        indexes=tuple(indexes),
        execution=commands_wire.Execution.of(execution),
    )
    return _post("/commands", _items_of(Page[Command]), body, _key(key))


# --- operations ----------------------------------------------------------------------------------


def operations(
    *,
    kind: str | None = None,
    status: Sequence[str] = (),
    run: str | None = None,
    cursor: str | None = None,
    limit: int = 100,
) -> Call[Page[Operation]]:
    read = _into(Page[Operation])
    return _get("/operations", read, kind=kind, status=tuple(status), run=run, cursor=cursor, limit=limit)


def operation(operation_id: str) -> Call[Operation]:
    return _get(f"/operations/{_id(operation_id)}", _into(Operation))


def why(operation_id: str) -> Call[Why]:
    return _get(f"/operations/{_id(operation_id)}/why", _into(Why))


def operation_nodes(operation_id: str) -> Call[Page[Node]]:
    return _get(f"/operations/{_id(operation_id)}/nodes", _into(Page[Node]))


def cancel(operation_id: str) -> Call[Operation]:
    return _post(f"/operations/{_id(operation_id)}/cancel", _into(Operation), key=_key(None))


def extend(operation_id: str, by: float) -> Call[Page[Node]]:
    return _post(f"/operations/{_id(operation_id)}/extend", _into(Page[Node]), Extension(by=by))


def watch(operation_id: str, *, last: str | None = None) -> Stream[Progress]:
    """Stream an operation's progress, from its beginning (or after `last`) to its end."""
    return Stream(
        path=f"{ROOT}/operations/{_id(operation_id)}/events",
        read=_into(Progress),
        last=last,
        ends=lambda progress: progress.ended,
    )


# --- clusters ------------------------------------------------------------------------------------


def create_cluster(
    name: str, template: str, *, timeout: float | None = None, key: str | None = None
) -> Call[Operation]:
    body = ClusterRequest(name=name, template=template, timeout=timeout)
    return _post("/clusters", _into(Operation), body, _key(key))


def clusters(
    *, state: Sequence[str] = (), cursor: str | None = None, limit: int = 100
) -> Call[Page[Cluster]]:
    return _get("/clusters", _into(Page[Cluster]), state=tuple(state), cursor=cursor, limit=limit)


def cluster(name: str) -> Call[ClusterDetail]:
    """Get a cluster by name or id."""
    return _get(f"/clusters/{_id(name)}", _into(ClusterDetail))


def delete_cluster(name: str, *, key: str | None = None) -> Call[Operation]:
    return _post(f"/clusters/{_id(name)}/delete", _into(Operation), key=_key(key))


# --- events --------------------------------------------------------------------------------------


def events(*, cursor: str | None = None, limit: int = 100, entity_id: str | None = None) -> Call[Page[Event]]:
    return _get("/events", _into(Page[Event]), cursor=cursor, limit=limit, entity_id=entity_id)


def last_events(last: int, *, entity_id: str | None = None) -> Call[Page[Event]]:
    """Get the end of the feed; `next` is where to continue."""
    return _get("/events", _into(Page[Event]), last=last, entity_id=entity_id)


def follow_events(*, last: str | None = None, entity_id: str | None = None) -> Stream[Event]:
    """Stream every event from the oldest (or after `last`) on, without end."""
    return Stream(
        path=f"{ROOT}/events",
        read=_into(Event),
        params={} if entity_id is None else {"entity_id": entity_id},
        last=last,
        name=lambda event: event.id,
    )


def audit(
    *,
    since: str | None = None,
    until: str | None = None,
    who: str | None = None,
    action: Sequence[str] = (),
    entity: str | None = None,
    cursor: str | None = None,
) -> Call[Page[Event]]:
    """Get a page of what people and programs did, oldest first. Times are in ISO 8601 with a zone."""
    return _get(
        "/audit",
        _into(Page[Event]),
        since=since,
        until=until,
        who=who,
        action=tuple(action),
        entity=entity,
        cursor=cursor,
    )


# --- signing in ----------------------------------------------------------------------------------


def whoami() -> Call[Identity]:
    """Get whose token is shown."""
    return _get("/whoami", _into(Identity))


def begin_device(machine: str) -> Call[DeviceLogin]:
    """Ask for a code with which a person signs this terminal in."""
    return _post("/device", _into(DeviceLogin), DeviceLoginRequest(machine=machine))


def device_token(device_code: str) -> Call[DeviceToken]:
    """Ask whether the person has confirmed; refused with `authorization_pending` until then."""
    return _post("/device/token", _into(DeviceToken), DeviceTokenRequest(device_code=device_code))


def sign_out() -> Call[SignedOut]:
    """End the session or login that is shown."""
    return _post("/sign-out", _into(SignedOut))


# --- nodes, pools, templates ---------------------------------------------------------------------


def nodes(
    *, state: Sequence[str] = (), template: str | None = None, cursor: str | None = None, limit: int = 100
) -> Call[Page[Node]]:
    read = _into(Page[Node])
    return _get("/nodes", read, state=tuple(state), template=template, cursor=cursor, limit=limit)


def node(node_id: str) -> Call[Node]:
    return _get(f"/nodes/{_id(node_id)}", _into(Node))


def hold(node_id: str, seconds: float) -> Call[Node]:
    return _post(f"/nodes/{_id(node_id)}/hold", _into(Node), nodes_wire.HoldRequest(seconds=seconds))


def diagnosis(node_id: str) -> Call[Bundle]:
    return _get(f"/nodes/{_id(node_id)}/diagnosis", _into(Bundle))


def terminate(node_id: str) -> Call[Node]:
    return _post(f"/nodes/{_id(node_id)}/terminate", _into(Node), key=_key(None))


def drain(node_id: str) -> Call[Node]:
    return _post(f"/nodes/{_id(node_id)}/drain", _into(Node), key=_key(None))


def overview() -> Call[Overview]:
    """Get the overview: what is wrong comes first."""
    return _get("/overview", _into(Overview))


def incident_report() -> Call[str]:
    """Get the overview as Markdown."""
    return _get("/overview/report", bytes.decode)


def pools() -> Call[Pools]:
    return _get("/pools", _into(Pools))


def pool_history(*, hours: int = HOURS_MOST, template: str | None = None) -> Call[PoolHistory]:
    return _get("/pools/history", _into(PoolHistory), hours=hours, template=template)


def boot(node_id: str) -> Call[Timeline]:
    """Get the phases of a node's boot."""
    return _get(f"/nodes/{_id(node_id)}/boot", _into(Timeline))


def boots(template: str) -> Call[Boots]:
    """Get how long a template's boots take."""
    return _get(f"/templates/{_id(template)}/boots", _into(Boots))


def templates() -> Call[tuple[Template, ...]]:
    return _get("/templates", _items_of(Page[Template]))


def template(name: str) -> Call[Template]:
    return _get(f"/templates/{_id(name)}", _into(Template))


def apply(spec: TemplateSpec) -> Call[Template]:
    path = f"{ROOT}/templates/{_id(spec.name)}"
    return Call(method="PUT", path=path, read=_into(Template), body=WireSpec.content(spec))


def plan(specs: Sequence[TemplateSpec]) -> Call[tuple[TemplatePlan, ...]]:
    """Get what `apply` of these templates would change and cost."""
    body = PlanRequest(templates={spec.name: WireSpec.content(spec) for spec in specs})
    path = f"{ROOT}/templates/plan"
    return Call(method="POST", path=path, read=_items_of(Page[TemplatePlan]), body=body)


def retire(name: str) -> Call[Template]:
    path = f"{ROOT}/templates/{_id(name)}/retire"
    return Call(method="POST", path=path, read=_into(Template))


def ready() -> Call[str]:
    """Check that the store answers and duties run; refused with `not_ready` otherwise."""
    return Call(method="GET", path="/readyz", read=lambda body: str(msgspec.json.decode(body)["status"]))


def metrics() -> Call[str]:
    """Return the figures in Prometheus's text format."""
    return Call(method="GET", path="/metrics", read=lambda body: str(body, "utf-8"))


def installation() -> Call[Installation]:
    return _get("/installation", _into(Installation))


def limit(max_nodes: int) -> Call[Installation]:
    path = f"{ROOT}/installation"
    return Call(method="PUT", path=path, read=_into(Installation), body=Limits(max_nodes=max_nodes))


def pause(template: str | None = None) -> Call[Pauses]:
    return _brake("pause", template)


def resume(template: str | None = None) -> Call[Pauses]:
    return _brake("resume", template)


def acknowledge(finding: str) -> Call[Overview]:
    return _post(f"/findings/{_id(finding)}/acknowledge", _into(Overview), key=_key(None))


def unacknowledge(finding: str) -> Call[Overview]:
    return _post(f"/findings/{_id(finding)}/unacknowledge", _into(Overview), key=_key(None))


def _brake(verb: str, template: str | None) -> Call[Pauses]:
    path = f"/{verb}" if template is None else f"/templates/{_id(template)}/{verb}"
    return _post(path, _into(Pauses), key=_key(None))


# --- jobs ----------------------------------------------------------------------------------------


def jobs(*, state: Sequence[str] = (), cursor: str | None = None, limit: int = 100) -> Call[Page[Job]]:
    return _get("/jobs", _into(Page[Job]), state=state, cursor=cursor, limit=limit)


def job(job_id: str) -> Call[Job]:
    return _get(f"/jobs/{_id(job_id)}", _into(Job))


def job_summary() -> Call[JobSummary]:
    return _get("/jobs/summary", _into(JobSummary))


# --- webhooks ------------------------------------------------------------------------------------


def undelivered(
    *, webhook: str | None = None, cursor: str | None = None, limit: int | None = None
) -> Call[Page[Undelivered]]:
    return _get(
        "/webhooks/undelivered", _into(Page[Undelivered]), webhook=webhook, cursor=cursor, limit=limit
    )


def resend(webhook: str, ids: Sequence[str] | None = None) -> Call[tuple[Undelivered, ...]]:
    """Send undelivered messages again: those named, or all of the webhook."""
    body = MessagesRequest(webhook=webhook, ids=None if ids is None else tuple(ids))
    return _post("/webhooks/resend", _items_of(Page[Undelivered]), body)


def forget(webhook: str, ids: Sequence[str] | None = None) -> Call[tuple[Undelivered, ...]]:
    """Forget messages that were given up: those named, or all of the webhook."""
    body = MessagesRequest(webhook=webhook, ids=None if ids is None else tuple(ids))
    return _post("/webhooks/forget", _items_of(Page[Undelivered]), body)


# --- commands ------------------------------------------------------------------------------------


def commands(
    *, operation_id: str | None = None, run: str | None = None, cursor: str | None = None, limit: int = 100
) -> Call[Page[Command]]:
    read = _into(Page[Command])
    return _get("/commands", read, operation_id=operation_id, run=run, cursor=cursor, limit=limit)


def command(command_id: str) -> Call[Command]:
    return _get(f"/commands/{_id(command_id)}", _into(Command))


def cancel_command(command_id: str) -> Call[Command]:
    return _post(f"/commands/{_id(command_id)}/cancel", _into(Command), key=_key(None))


def output(command_id: str, *, offset: int = 0) -> Call[bytes]:
    return _get(f"/commands/{_id(command_id)}/output", bytes, offset=offset)


def output_path(command_id: str) -> str:
    return f"{ROOT}/commands/{_id(command_id)}/output"


def artifact_path(command_id: str) -> str:
    return f"{ROOT}/commands/{_id(command_id)}/artifact"


BLOBS = f"{ROOT}/blobs"
read_blob = _into(Blob)


# --- tokens --------------------------------------------------------------------------------------


def make_token(
    name: str, role: Role, *, expires_in: float | None = None, template: str | None = None
) -> Call[MintedToken]:
    body = TokenRequest(name=name, role=role, expires_in=expires_in, template=template)
    return _post("/tokens", _into(MintedToken), body)


def tokens() -> Call[tuple[Token, ...]]:
    return _get("/tokens", _items_of(Page[Token]))


def revoke_token(token_id: str) -> Call[Token]:
    return _post(f"/tokens/{_id(token_id)}/revoke", _into(Token), key=_key(None))
