"""A record and its answer are declared apart (ADR 64): what they share is the same, what differs is named."""

import types
from dataclasses import MISSING, dataclass, fields
from datetime import datetime
from enum import Enum
from typing import Annotated, Any, NewType, Union, get_args, get_origin, get_type_hints

import msgspec
import pytest

from muster.discovery import installed
from muster.domain import (
    cluster,
    command,
    diagnosis,
    events,
    findings,
    job_figures,
    node,
    operation,
    progress,
    progress_view,
    recent_changes,
    requests,
    template,
    terminal,
)
from muster.domain import jobs as job
from muster.domain import overview as seen
from muster.domain.access import ApiToken
from muster.enrolment import reports
from muster.wire import (
    agent,
    clusters,
    commands,
    diagnoses,
    jobs,
    nodes,
    operations,
    overview,
    provisions,
    templates,
    tokens,
)
from muster.wire import events as wire_events


@dataclass(frozen=True, kw_only=True)
class Pair:
    record: type
    shape: type[msgspec.Struct]
    withheld: frozenset[str] = frozenset()
    """Of the record: what clients don't see, or see under another name."""
    added: frozenset[str] = frozenset()
    """Of the shape: what the record does not hold under this name."""
    other: frozenset[str] = frozenset()
    """What both have, and in another form."""


def pair(
    record: type, shape: type[msgspec.Struct], *, withheld: str = "", added: str = "", other: str = ""
) -> Pair:
    return Pair(
        record=record,
        shape=shape,
        withheld=frozenset(withheld.split()),
        added=frozenset(added.split()),
        other=frozenset(other.split()),
    )


PAIRS = (
    pair(
        node.Node,
        nodes.Node,
        withheld="boot_id left_at",
        added="last_seen_at health health_reason health_source health_since",
    ),
    pair(job.Job, jobs.Job, withheld="assignment_id", added="why advice waited_seconds"),
    pair(job_figures.SourceCounts, jobs.JobSource),
    pair(job_figures.UnservedGroup, jobs.UnservedJobs, added="text advice"),
    pair(job_figures.Served, jobs.JobsServed, other="waited"),
    pair(job_figures.JobFigures, jobs.JobSummary),
    pair(
        command.Command,
        commands.Command,
        withheld="execution truncated_at deadline_at",
        added="argv timeout archive stdin collect terminal exit_status truncated kept silent_since"
        " given_up_at",
    ),
    pair(command.Execution, commands.Execution, other="env"),
    pair(terminal.Traffic, commands.Traffic),
    pair(terminal.Window, commands.Window),
    pair(
        cluster.Cluster,
        clusters.Cluster,
        withheld="stage stage_at group_asked_at asked_at answered principal kubelet roles_left",
        added="account group region nodes console_url",
    ),
    pair(
        operation.Operation,
        operations.Operation,
        withheld="id created_at verdict progress lease_owner lease_until epoch warm errors trace",
        added="operation_id phase label step total_steps message percent motion eta_seconds elapsed_seconds"
        " started_at parts detail error steps",
        other="request",
    ),
    pair(progress.Part, operations.Part),
    pair(progress_view.Why, operations.Why),
    pair(
        template.TemplateSpec,
        templates.TemplateSpec,
        withheld="name tables retired outfit",
        added=" ".join(installed().template_tables),
    ),
    pair(template.ResourceClass, templates.ResourceClass),
    pair(template.FieldChange, templates.FieldChange, other="before after"),
    pair(
        requests.ProvisionRequest,
        provisions.ProvisionRequest,
        withheld="tables",
        added=" ".join(installed().request_tables),
    ),
    pair(requests.ClusterCreateRequest, clusters.ClusterRequest),
    pair(reports.Report, agent.Report),
    pair(ApiToken, tokens.Token, withheld="idle_timeout claims"),
    pair(events.Event, wire_events.Event, added="title", other="changes"),
    pair(diagnosis.Evidence, diagnoses.Evidence),
    pair(diagnosis.Section, diagnoses.Section),
    pair(diagnosis.Diagnosis, diagnoses.Diagnosis),
    pair(findings.Finding, overview.Finding, withheld="subject happened_at", added="id"),
    pair(seen.Held, overview.Held),
    pair(seen.Holding, overview.RunningRun),
    pair(recent_changes.Change, overview.Change),
)
ASKED = (template.TemplateSpec, requests.ProvisionRequest, command.Execution, reports.Report)
"""Records that requests become: what a request leaves out is what the record leaves out."""
SHAPES = {each.record: each.shape for each in PAIRS}


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair.shape.__name__)
def test_an_answer_has_the_fields_of_its_record_in_the_same_types(pair: Pair) -> None:
    held = get_type_hints(pair.record, include_extras=True)
    shown = get_type_hints(pair.shape, include_extras=True)
    held = {each.name: held[each.name] for each in fields(pair.record)}
    shown = {each.name: shown[each.name] for each in msgspec.structs.fields(pair.shape)}
    assert held.keys() - shown.keys() == pair.withheld
    assert shown.keys() - held.keys() == pair.added
    assert {name for name in held.keys() & shown.keys() if not _same(held[name], shown[name])} == pair.other


@pytest.mark.parametrize(
    "pair", [each for each in PAIRS if each.record in ASKED], ids=lambda pair: pair.shape.__name__
)
def test_a_request_has_the_defaults_of_its_record(pair: Pair) -> None:
    shown = {each.name: each for each in msgspec.structs.fields(pair.shape)}
    shared = [each for each in fields(pair.record) if each.name in shown.keys() - pair.other]
    wanted = {each.name: None if each.default is MISSING else each.default for each in shared}
    given = {name: None if shown[name].required else shown[name].default for name in wanted}
    assert given == wanted


def _same(held: Any, shown: Any) -> bool:
    """Return whether a shape's type says the same. Seconds are shown as a time, open enums as text."""
    held, maybe = _bare(held)
    shown, shown_maybe = _bare(shown)
    if maybe != shown_maybe:
        return False
    if get_origin(held) is tuple and get_origin(shown) is tuple:
        return _same(get_args(held)[0], get_args(shown)[0])
    if shown is datetime:
        return held is float
    if isinstance(held, type) and issubclass(held, Enum):
        return shown in (held, str)
    return held is shown or held == shown or SHAPES.get(held) is shown


def _bare(hint: Any) -> tuple[Any, bool]:
    """Return the type without names, limits and `| None`, and whether it may be None."""
    maybe = False
    while True:
        if isinstance(hint, NewType):
            hint = hint.__supertype__
        elif get_origin(hint) is Annotated:
            hint = get_args(hint)[0]
        elif get_origin(hint) in (Union, types.UnionType) and type(None) in get_args(hint):
            inner = [each for each in get_args(hint) if each is not type(None)]
            hint, maybe = Union[tuple(inner)], True  # noqa: UP007 — made of a tuple
        else:
            return hint, maybe
