"""What can be asked, as values: each function describes one call and how to read its answer."""

import json
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar
from urllib.parse import quote

from muster.client import results
from muster.client.overview import Overview
from muster.client.streams import Stream
from muster.domain.cluster_spec import ClusterSpec
from muster.domain.plain import fields_to_plain, from_plain
from muster.domain.requests import ProvisionRequest
from muster.domain.template import TemplateSpec

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
    body: Mapping[str, Any] | None = None
    key: str | None = None
    """The idempotency key. It stays the same when the call is repeated."""

    @property
    def repeatable(self) -> bool:
        return self.method in ("GET", "PUT") or self.key is not None


def _into(cls: type[T]) -> Read[T]:
    return lambda body: from_plain(cls, json.loads(body))


def _page_of(cls: type[T]) -> Read[results.Page[T]]:
    def read(body: bytes) -> results.Page[T]:
        data = json.loads(body)
        return results.Page(
            items=tuple(from_plain(cls, each) for each in data["items"]), next=data.get("next")
        )

    return read


def _items_of(cls: type[T]) -> Read[tuple[T, ...]]:
    return lambda body: tuple(from_plain(cls, each) for each in json.loads(body)["items"])


def _get(path: str, read: Read[T], **params: object) -> Call[T]:
    given = {
        name: [str(each) for each in value] if isinstance(value, list | tuple) else str(value)
        for name, value in params.items()
        if value not in (None, (), [])
    }
    return Call(method="GET", path=ROOT + path, read=read, params=given)


def _post(path: str, read: Read[T], body: Mapping[str, Any] | None = None, key: str | None = None) -> Call[T]:
    return Call(method="POST", path=ROOT + path, read=read, body=body, key=key)


def _key(given: str | None) -> str:
    return given or secrets.token_urlsafe(16)


def _id(value: str) -> str:
    return quote(value, safe="")


# --- nodes for runs ------------------------------------------------------------------------------


def provision(request: ProvisionRequest, *, key: str | None = None) -> Call[results.Operation]:
    return _post("/provisions", _into(results.Operation), _provision(request), _key(key))


def _provision(request: ProvisionRequest) -> dict[str, Any]:
    return {name: value for name, value in fields_to_plain(request).items() if value is not None}


def release(
    *,
    operation_id: str | None = None,
    assignment_ids: Sequence[str] | None = None,
    run: str | None = None,
    latest: bool = False,
    key: str | None = None,
) -> Call[results.Operation]:
    body = {
        "operation_id": operation_id,
        "assignment_ids": None if assignment_ids is None else list(assignment_ids),
        "run": run,
        "latest": latest,
    }
    return _post("/releases", _into(results.Operation), body, _key(key))


def run(
    request: ProvisionRequest, execution: Mapping[str, Any], *, key: str | None = None
) -> Call[results.Operation]:
    """`execution`: argv, env, timeout, archive, collect."""
    body = {"provision": _provision(request), "execution": dict(execution)}
    return _post("/runs", _into(results.Operation), body, _key(key))


def execute(
    execution: Mapping[str, Any],
    *,
    operation_id: str | None = None,
    run: str | None = None,
    indexes: Sequence[int] = (),
    key: str | None = None,
) -> Call[tuple[results.Command, ...]]:
    body = {
        "operation_id": operation_id,
        "run": run,
        "indexes": list(indexes),
        "execution": dict(execution),
    }
    return _post("/commands", _items_of(results.Command), body, _key(key))


# --- operations ----------------------------------------------------------------------------------


def operations(
    *,
    kind: str | None = None,
    status: Sequence[str] = (),
    run: str | None = None,
    cursor: str | None = None,
    limit: int = 100,
) -> Call[results.Page[results.Operation]]:
    read = _page_of(results.Operation)
    return _get("/operations", read, kind=kind, status=tuple(status), run=run, cursor=cursor, limit=limit)


def operation(operation_id: str) -> Call[results.Operation]:
    return _get(f"/operations/{_id(operation_id)}", _into(results.Operation))


def why(operation_id: str) -> Call[results.Why]:
    return _get(f"/operations/{_id(operation_id)}/why", _into(results.Why))


def operation_nodes(operation_id: str) -> Call[results.Page[results.Node]]:
    return _get(f"/operations/{_id(operation_id)}/nodes", _page_of(results.Node))


def cancel(operation_id: str) -> Call[results.Operation]:
    return _post(f"/operations/{_id(operation_id)}/cancel", _into(results.Operation), key=_key(None))


def extend(operation_id: str, by: float) -> Call[results.Page[results.Node]]:
    return _post(f"/operations/{_id(operation_id)}/extend", _page_of(results.Node), {"by": by})


def watch(operation_id: str, *, last: str | None = None) -> Stream[results.Progress]:
    """An operation's progress, from its beginning (or after `last`) to its end."""
    return Stream(
        path=f"{ROOT}/operations/{_id(operation_id)}/events",
        read=lambda data: from_plain(results.Progress, json.loads(data)),
        last=last,
        ends=lambda progress: progress.ended,
    )


# --- clusters ------------------------------------------------------------------------------------


def create_cluster(
    name: str, template: str, *, timeout: float | None = None, key: str | None = None
) -> Call[results.Operation]:
    body = {"name": name, "template": template, "timeout": timeout}
    return _post("/clusters", _into(results.Operation), body, _key(key))


def clusters(
    *, state: Sequence[str] = (), cursor: str | None = None, limit: int = 100
) -> Call[results.Page[results.Cluster]]:
    return _get("/clusters", _page_of(results.Cluster), state=tuple(state), cursor=cursor, limit=limit)


def cluster(name: str) -> Call[results.ClusterDetail]:
    """By name or id."""
    return _get(f"/clusters/{_id(name)}", _into(results.ClusterDetail))


def delete_cluster(name: str, *, key: str | None = None) -> Call[results.Operation]:
    return _post(f"/clusters/{_id(name)}/delete", _into(results.Operation), key=_key(key))


# --- events --------------------------------------------------------------------------------------


def events(
    *, cursor: str | None = None, limit: int = 100, entity_id: str | None = None
) -> Call[results.Page[results.Event]]:
    return _get("/events", _page_of(results.Event), cursor=cursor, limit=limit, entity_id=entity_id)


def last_events(last: int, *, entity_id: str | None = None) -> Call[results.Page[results.Event]]:
    """The end of the feed; `next` is where to go on."""
    return _get("/events", _page_of(results.Event), last=last, entity_id=entity_id)


def follow_events(*, last: str | None = None, entity_id: str | None = None) -> Stream[results.Event]:
    """Every event from the oldest (or after `last`) on, without end."""
    return Stream(
        path=f"{ROOT}/events",
        read=lambda data: from_plain(results.Event, json.loads(data)),
        params={} if entity_id is None else {"entity_id": entity_id},
        last=last,
        name=lambda event: event.id,
    )


# --- nodes, pools, templates ---------------------------------------------------------------------


def nodes(
    *, state: Sequence[str] = (), template: str | None = None, cursor: str | None = None, limit: int = 100
) -> Call[results.Page[results.Node]]:
    read = _page_of(results.Node)
    return _get("/nodes", read, state=tuple(state), template=template, cursor=cursor, limit=limit)


def node(node_id: str) -> Call[results.Node]:
    return _get(f"/nodes/{_id(node_id)}", _into(results.Node))


def diagnosis(node_id: str) -> Call[results.Bundle]:
    return _get(f"/nodes/{_id(node_id)}/diagnosis", _into(results.Bundle))


def terminate(node_id: str) -> Call[results.Node]:
    return _post(f"/nodes/{_id(node_id)}/terminate", _into(results.Node), key=_key(None))


def drain(node_id: str) -> Call[results.Node]:
    return _post(f"/nodes/{_id(node_id)}/drain", _into(results.Node), key=_key(None))


def overview() -> Call[Overview]:
    """What is wrong, first."""
    return _get("/overview", _into(Overview))


def incident_report() -> Call[str]:
    """The same as Markdown."""
    return _get("/overview/report", bytes.decode)


def pools() -> Call[results.Pools]:
    return _get("/pools", _into(results.Pools))


def boot(node_id: str) -> Call[results.Timeline]:
    """Where the time of a node's boot went."""
    return _get(f"/nodes/{_id(node_id)}/boot", _into(results.Timeline))


def boots(template: str) -> Call[results.Boots]:
    """How long a template's boots take."""
    return _get(f"/templates/{_id(template)}/boots", _into(results.Boots))


def templates() -> Call[tuple[results.Template, ...]]:
    return _get("/templates", _items_of(results.Template))


def template(name: str) -> Call[results.Template]:
    return _get(f"/templates/{_id(name)}", _into(results.Template))


def apply(spec: TemplateSpec) -> Call[results.Template]:
    body = {
        name: value
        for name, value in fields_to_plain(spec).items()
        if name not in ("name", "outfit", "retired")
    }
    body["cluster"] = None if spec.cluster is None else _cluster(spec.cluster)
    path = f"{ROOT}/templates/{_id(spec.name)}"
    return Call(method="PUT", path=path, read=_into(results.Template), body=body)


def retire(name: str) -> Call[results.Template]:
    path = f"{ROOT}/templates/{_id(name)}/retire"
    return Call(method="POST", path=path, read=_into(results.Template), body={})


def _cluster(spec: ClusterSpec) -> dict[str, Any]:
    """Pairs as the objects that they are over the wire."""
    body = fields_to_plain(spec)
    pools = [
        {**fields_to_plain(pool), "labels": {label.name: label.value for label in pool.labels}}
        for pool in spec.pools
    ]
    return {**body, "tags": {tag.name: tag.value for tag in spec.tags}, "pools": pools}


def ready() -> Call[str]:
    """Whether the store answers and the periodic duties tick; refused with `not_ready` if not."""
    return Call(method="GET", path="/readyz", read=lambda body: str(json.loads(body)["status"]))


def installation() -> Call[results.Installation]:
    return _get("/installation", _into(results.Installation))


def limit(max_nodes: int) -> Call[results.Installation]:
    path, body = f"{ROOT}/installation", {"max_nodes": max_nodes}
    return Call(method="PUT", path=path, read=_into(results.Installation), body=body)


def pause(template: str | None = None) -> Call[results.Pauses]:
    return _brake("pause", template)


def resume(template: str | None = None) -> Call[results.Pauses]:
    return _brake("resume", template)


def _brake(verb: str, template: str | None) -> Call[results.Pauses]:
    path = f"/{verb}" if template is None else f"/templates/{_id(template)}/{verb}"
    return _post(path, _into(results.Pauses), key=_key(None))


# --- commands ------------------------------------------------------------------------------------


def commands(
    *, operation_id: str | None = None, run: str | None = None, cursor: str | None = None, limit: int = 100
) -> Call[results.Page[results.Command]]:
    read = _page_of(results.Command)
    return _get("/commands", read, operation_id=operation_id, run=run, cursor=cursor, limit=limit)


def command(command_id: str) -> Call[results.Command]:
    return _get(f"/commands/{_id(command_id)}", _into(results.Command))


def cancel_command(command_id: str) -> Call[results.Command]:
    return _post(f"/commands/{_id(command_id)}/cancel", _into(results.Command), key=_key(None))


def output(command_id: str, *, offset: int = 0) -> Call[bytes]:
    return _get(f"/commands/{_id(command_id)}/output", bytes, offset=offset)


def output_path(command_id: str) -> str:
    return f"{ROOT}/commands/{_id(command_id)}/output"


def artifact_path(command_id: str) -> str:
    return f"{ROOT}/commands/{_id(command_id)}/artifact"


BLOBS = f"{ROOT}/blobs"
read_blob = _into(results.Blob)


# --- tokens --------------------------------------------------------------------------------------


def make_token(
    name: str, role: str, *, expires_in: float | None = None, template: str | None = None
) -> Call[results.Token]:
    body = {"name": name, "role": role, "expires_in": expires_in, "template": template}
    return _post("/tokens", _into(results.Token), body)


def tokens() -> Call[tuple[results.Token, ...]]:
    return _get("/tokens", _items_of(results.Token))


def revoke_token(token_id: str) -> Call[results.Token]:
    return _post(f"/tokens/{_id(token_id)}/revoke", _into(results.Token), key=_key(None))
