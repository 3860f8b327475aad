"""Random records of every class, valid as the constructors demand."""

from typing import Any

from hypothesis import strategies as st

from muster.domain import checks
from muster.domain.access import ApiToken, Role
from muster.domain.command import Command, CommandState, Execution, Variable
from muster.domain.ids import AssignmentId, CommandId, LaunchId, NodeId, OperationId
from muster.domain.launch import Launch, LaunchState
from muster.domain.lifecycle import NodeState
from muster.domain.node import Node
from muster.domain.operation import Kind, Member, Operation, Status, Verdict
from muster.domain.progress import Part, Progress, Tone
from muster.domain.reasons import Reason
from muster.domain.requests import ProvisionRequest, RefillRequest, ReleaseRequest, RunRequest
from muster.domain.template import (
    BOOT_LEAST,
    RESOURCE_CLASSES,
    Reuse,
    Runtime,
    Template,
    TemplateSpec,
    UsageClass,
)

texts = st.text(
    st.characters(min_codepoint=33, max_codepoint=0x2FF, categories=["L", "N"]), min_size=1, max_size=8
)
names = st.text("abcxyz019", min_size=1, max_size=8)
times = st.floats(0, 2e9)
durations = st.floats(0.001, checks.SECONDS_MAX)
counts = st.integers(1, checks.COUNT_MAX)
small = st.integers(0, 50)
reasons = st.sampled_from(Reason)
classes = st.sampled_from(list(RESOURCE_CLASSES))
usages = st.sampled_from(UsageClass)
usage_orders = st.lists(usages, min_size=1, unique=True).map(tuple)
patterns = st.lists(st.sampled_from(["*", "c*", "m5.large"]), min_size=1, max_size=3).map(tuple)
operation_ids = texts.map(OperationId)
assignment_ids = texts.map(AssignmentId)
launch_ids = texts.map(LaunchId)

provision_requests = st.builds(
    ProvisionRequest,
    template=names,
    count=counts,
    run=texts,
    owner=texts,
    resource_class=st.none() | classes,
    usage=st.none() | usage_orders,
    instance_types=st.none() | patterns,
    max_runtime=st.none() | durations,
    timeout=st.none() | durations,
    queue_timeout=st.just(0.0) | durations,
)
release_requests = st.builds(
    ReleaseRequest,
    operation_id=operation_ids,
    assignment_ids=st.none() | st.lists(assignment_ids, min_size=1, max_size=3).map(tuple),
)
refill_requests = st.builds(
    RefillRequest, template=names, revision=st.integers(1, checks.MACHINES_MAX), count=counts
)
arguments = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=20)
paths = st.lists(names, min_size=1, max_size=3).map("/".join)
executions = st.builds(
    Execution,
    argv=st.tuples(names, arguments) | st.tuples(names),
    env=st.lists(
        st.builds(Variable, name=names.map("V_{}".format), value=arguments),
        max_size=3,
        unique_by=lambda variable: variable.name,
    ).map(tuple),
    timeout=st.none() | durations,
    archive=st.none() | names,
    collect=st.lists(paths, max_size=3).map(tuple),
)
run_requests = st.builds(RunRequest, provision=provision_requests, execution=executions)
requests = provision_requests | release_requests | refill_requests | run_requests

nodes = st.builds(
    Node,
    id=texts.map(NodeId),
    template=names,
    revision=small,
    provider=names,
    resource_class=classes,
    usage_class=usages,
    instance_type=texts,
    machine_id=texts,
    launch_id=st.none() | launch_ids,
    state=st.sampled_from(NodeState),
    version=small,
    created_at=times,
    entered_at=times,
    deadline_at=st.none() | times,
    deadline_source=texts,
    operation_id=st.none() | operation_ids,
    assignment_id=st.none() | assignment_ids,
    run=st.none() | texts,
    owner=st.none() | texts,
    last_owner=st.none() | texts,
    boot_id=st.none() | texts,
    joined_at=st.none() | times,
    booted_at=st.none() | times,
    attached_at=st.none() | times,
    drain=st.booleans(),
    reason=st.none() | reasons,
    address=texts,
    left_at=st.none() | times,
)
launches = st.builds(
    Launch,
    id=launch_ids,
    operation_id=operation_ids,
    token=texts,
    template=names,
    revision=small,
    provider=names,
    resource_class=classes,
    usage_class=usages,
    instance_types=patterns,
    count=counts,
    state=st.sampled_from(LaunchState),
    version=small,
    created_at=times,
    called_at=st.none() | times,
    calls=small,
    adopted=small,
    closed_at=st.none() | times,
    reason=st.none() | reasons,
    message=texts,
)
parts = st.builds(
    Part,
    id=texts,
    name=texts,
    state=texts,
    tone=st.sampled_from(Tone),
    detail=texts,
    count=counts,
    since=st.none() | times,
)
progresses = st.builds(
    Progress,
    step=st.integers(1, 5),
    total_steps=st.just(5),
    phase=texts,
    label=texts,
    message=texts,
    percent=st.floats(0, 100),
    parts=st.lists(parts, max_size=2).map(tuple),
)
members = st.builds(Member, node_id=texts.map(NodeId), assignment_id=assignment_ids)
operations = st.builds(
    Operation,
    id=operation_ids,
    kind=st.sampled_from(Kind),
    request=requests,
    template=st.none() | names,
    run=st.none() | texts,
    idempotency_key=st.none() | texts,
    status=st.sampled_from(Status),
    queued_since=st.none() | times,
    version=small,
    created_at=times,
    updated_at=times,
    ended_at=st.none() | times,
    deadline_at=times,
    deadline_source=texts,
    cancel_requested_at=st.none() | times,
    committed_at=st.none() | times,
    members=st.lists(members, max_size=2).map(tuple),
    verdict=st.none() | st.builds(Verdict, reason=reasons, message=texts),
    result=texts,
    progress=st.none() | progresses,
    lease_owner=st.none() | texts,
    lease_until=times,
    epoch=small,
)
boot_timeouts = st.none() | st.floats(BOOT_LEAST, checks.SECONDS_MAX)
provision_timeouts = st.tuples(boot_timeouts, boot_timeouts).map(
    lambda pair: pair if None in pair else (min(pair), max(pair))  # type: ignore[type-var]
)
"""A boot deadline and its ceiling, which is never below it."""


def _spec(timeouts: tuple[float | None, float | None], **fields: Any) -> TemplateSpec:
    deadline, ceiling = timeouts
    return TemplateSpec(provision_timeout=deadline, max_provision_timeout=ceiling, **fields)


specs = st.builds(
    _spec,
    timeouts=provision_timeouts,
    name=names,
    provider=names,
    resource_class=classes,
    runtime=st.sampled_from([Runtime.EXEC, "github"]),
    boot_script=texts,
    usage=usage_orders,
    instance_types=patterns,
    reuse=st.sampled_from(Reuse),
    max_nodes=st.integers(50, 100),
    min_idle=small,
    replacements=small,
    attach_timeout=st.none() | durations,
    max_runtime=durations,
    idle_timeout=durations,
    rescue_window=st.just(0.0) | durations,
)
templates = st.builds(Template, spec=specs, revision=small, applied_at=times)
commands = st.builds(
    Command,
    id=texts.map(CommandId),
    operation_id=operation_ids,
    assignment_id=assignment_ids,
    node_id=texts.map(NodeId),
    ordinal=small,
    count=counts,
    run=texts,
    execution=executions,
    state=st.sampled_from(CommandState),
    version=small,
    created_at=times,
    started_at=st.none() | times,
    ended_at=st.none() | times,
    cancel_requested_at=st.none() | times,
    exit_code=st.none() | st.integers(0, 255),
    signal=st.none() | st.integers(1, 64),
    detail=texts,
)
tokens = st.builds(
    lambda role, template, **given: ApiToken(
        role=role, template=template if role is Role.ENROL else None, **given
    ),
    id=texts,
    name=texts,
    role=st.sampled_from(Role),
    template=names,
    created_at=times,
    expires_at=st.none() | times,
    revoked_at=st.none() | times,
)
