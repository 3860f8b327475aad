"""Operations over the wire: the progress payload that everybody reads, and the record around it."""

from datetime import datetime
from typing import Any, Self

from pydantic import Field

from muster.api.models.base import EXAMPLE_TIME, Asked, In, Out, at, example, maybe_at
from muster.api.models.diagnosis import DiagnosisOut
from muster.domain.diagnosis import Diagnosis
from muster.domain.operation import Kind, Operation, Status
from muster.domain.plain import to_plain
from muster.domain.progress import Part, Tone
from muster.domain.reasons import ADVICE, Reason
from muster.domain.requests import ClusterCreateRequest, ProvisionRequest, RunRequest
from muster.domain.showing import STEPS, Why

PAGE_MOST = 500

PROGRESS_EXAMPLE: dict[str, Any] = {
    "operation_id": "op-1hx2k9q0c7m3t8v5e1",
    "kind": "provision",
    "status": "running",
    "phase": "booting",
    "label": "Booting and attaching",
    "step": 3,
    "total_steps": 5,
    "message": "1 of 2 nodes attached",
    "percent": 52.0,
    "eta_seconds": None,
    "elapsed_seconds": 4.2,
    "started_at": EXAMPLE_TIME,
    "updated_at": EXAMPLE_TIME,
    "deadline_at": EXAMPLE_TIME,
    "parts": [
        {
            "id": "node-1hx2k9q0c7m3t8v5e2",
            "name": "node-1hx2k9q0c7m3t8v5e2",
            "state": "attached",
            "tone": "success",
            "detail": "",
            "count": 1,
            "since": EXAMPLE_TIME,
        }
    ],
    "detail": {
        "run": "ci-42",
        "template": "ci",
        "count": 2,
        "result": "",
        "cluster": None,
        "arm_elapsed_seconds": None,
        "portal_url": None,
    },
    "error": None,
}
MEMBER_EXAMPLE = {"node_id": "node-1hx2k9q0c7m3t8v5e2", "assignment_id": "as-1hx2k9q0c7m3t8v5e3"}


class PartOut(Out):
    id: str
    name: str
    state: str
    tone: Tone
    detail: str
    count: int
    since: datetime | None

    @classmethod
    def of(cls, part: Part) -> Self:
        return cls(
            id=part.id,
            name=part.name,
            state=part.state,
            tone=part.tone,
            detail=part.detail,
            count=part.count,
            since=maybe_at(part.since),
        )


class ErrorOut(Out):
    code: Reason
    message: str
    advice: str
    node_id: str | None
    """The node whose failure it was: /nodes/{node_id}/diagnosis tells more."""
    diagnosis: DiagnosisOut | None
    """Of that node; null in lists."""


class DetailOut(Out):
    run: str | None
    template: str | None
    count: int | None
    result: str
    cluster: str | None
    """The name of the cluster that it is about."""
    arm_elapsed_seconds: float | None
    """How long the provider has been making the cluster, while it does."""
    portal_url: str | None
    """Where the provider's own console shows it."""


class ProgressOut(Out):
    """One schema for every kind of operation: API, event stream, CLI and page all read this."""

    model_config = example(PROGRESS_EXAMPLE)

    operation_id: str
    kind: Kind
    status: Status
    phase: str | None
    label: str | None
    step: int | None
    total_steps: int | None
    message: str
    percent: float | None
    eta_seconds: float | None = None
    elapsed_seconds: float
    started_at: datetime
    updated_at: datetime
    deadline_at: datetime
    parts: list[PartOut]
    detail: DetailOut
    error: ErrorOut | None

    @classmethod
    def of(cls, operation: Operation, *, now: float, diagnosis: Diagnosis | None = None) -> Self:
        return cls(**progress_fields(operation, now=now, diagnosis=diagnosis))


class MemberOut(Out):
    node_id: str
    assignment_id: str


class StepOut(Out):
    phase: str
    label: str


class OperationOut(ProgressOut):
    """The progress payload, and what else the record holds."""

    model_config = example(
        {
            **PROGRESS_EXAMPLE,
            "steps": [{"phase": "selecting", "label": "Selecting warm nodes"}],
            "run": "ci-42",
            "template": "ci",
            "idempotency_key": None,
            "version": 7,
            "request": {"template": "ci", "count": 2, "run": "ci-42", "owner": "default"},
            "members": [MEMBER_EXAMPLE],
            "result": "",
            "deadline_source": "default",
            "queued_since": None,
            "cancel_requested_at": None,
            "committed_at": None,
            "ended_at": None,
        }
    )

    steps: list[StepOut]
    """All that its kind goes through, in order; empty if that is not known beforehand."""
    run: str | None
    template: str | None
    idempotency_key: str | None
    version: int
    request: dict[str, Any]
    members: list[MemberOut]
    result: str
    deadline_source: str
    queued_since: datetime | None
    cancel_requested_at: datetime | None
    committed_at: datetime | None
    ended_at: datetime | None

    @classmethod
    def of(cls, operation: Operation, *, now: float, diagnosis: Diagnosis | None = None) -> Self:
        return cls(
            **progress_fields(operation, now=now, diagnosis=diagnosis),
            steps=[StepOut(phase=phase, label=label) for phase, label in STEPS.get(operation.kind, ())],
            run=operation.run,
            template=operation.template,
            idempotency_key=operation.idempotency_key,
            version=operation.version,
            request=_request(operation),
            members=[
                MemberOut(node_id=member.node_id, assignment_id=member.assignment_id)
                for member in operation.members
            ],
            result=operation.result,
            deadline_source=operation.deadline_source,
            queued_since=maybe_at(operation.queued_since),
            cancel_requested_at=maybe_at(operation.cancel_requested_at),
            committed_at=maybe_at(operation.committed_at),
            ended_at=maybe_at(operation.ended_at),
        )


class WhyOut(Out):
    model_config = example(
        {
            "operation_id": "op-1hx2k9q0c7m3t8v5e1",
            "status": "queued",
            "waits_for": "room under max_nodes of ci (20 of 20 in use)",
            "since": EXAMPLE_TIME,
            "until": EXAMPLE_TIME,
            "position": 1,
        }
    )

    operation_id: str
    status: Status
    waits_for: str
    since: datetime
    until: datetime
    position: int | None

    @classmethod
    def of(cls, why: Why) -> Self:
        return cls(
            operation_id=why.operation_id,
            status=why.status,
            waits_for=why.waits_for,
            since=at(why.since),
            until=at(why.until),
            position=why.position,
        )


class OperationsAsked(Asked):
    kind: Kind | None = None
    status: list[Status] = Field(default=[], max_length=len(Status))
    run: str | None = None
    cursor: str | None = None
    limit: int = Field(default=100, ge=1, le=PAGE_MOST)


class ExtendIn(In):
    model_config = example({"by": 1800})

    by: float
    """Seconds."""


def progress_fields(operation: Operation, *, now: float, diagnosis: Diagnosis | None) -> dict[str, Any]:
    shown = operation.progress
    ended = operation.ended_at if operation.ended_at is not None else now
    return {
        "operation_id": operation.id,
        "kind": operation.kind,
        "status": operation.status,
        "phase": shown.phase if shown else None,
        "label": shown.label if shown else None,
        "step": shown.step if shown else None,
        "total_steps": shown.total_steps if shown else None,
        "message": shown.message if shown else "",
        "percent": shown.percent if shown else None,
        "eta_seconds": _eta(operation, now),
        "elapsed_seconds": round(max(0.0, ended - operation.created_at), 3),
        "started_at": at(operation.created_at),
        "updated_at": at(operation.updated_at),
        "deadline_at": at(operation.deadline_at),
        "parts": [PartOut.of(part) for part in shown.parts] if shown else [],
        "detail": _detail(operation, now),
        "error": _error(operation, diagnosis),
    }


def _eta(operation: Operation, now: float) -> float | None:
    shown = operation.progress
    if operation.ended or shown is None or shown.expected_at is None or shown.expected_at <= now:
        return None
    return round(shown.expected_at - now, 1)


def _detail(operation: Operation, now: float) -> DetailOut:
    request = operation.request
    if isinstance(request, RunRequest):
        request = request.provision
    count = request.count if isinstance(request, ProvisionRequest) else None
    shown = operation.progress
    since = shown.provider_since if shown is not None and not operation.ended else None
    return DetailOut(
        run=operation.run,
        template=operation.template,
        count=count,
        result=operation.result,
        cluster=request.name if isinstance(request, ClusterCreateRequest) else None,
        arm_elapsed_seconds=None if since is None else round(max(0.0, now - since), 3),
        portal_url=(shown.link or None) if shown is not None else None,
    )


def _error(operation: Operation, diagnosis: Diagnosis | None) -> ErrorOut | None:
    verdict = operation.verdict
    if verdict is None:
        return None
    return ErrorOut(
        code=verdict.reason,
        message=verdict.message,
        advice=verdict.advice or ADVICE[verdict.reason],
        node_id=verdict.node_id,
        diagnosis=DiagnosisOut.of(diagnosis) if diagnosis is not None else None,
    )


def _request(operation: Operation) -> dict[str, Any]:
    plain = to_plain(operation.request)
    assert isinstance(plain, dict)  # noqa: S101 — a dataclass is encoded field by field
    return without_environment(plain)


def without_environment(request: dict[str, Any]) -> dict[str, Any]:
    """A run's environment belongs to its caller and may hold what nobody else should see."""
    execution = request.get("execution")
    if not isinstance(execution, dict):
        return request
    return {**request, "execution": {key: value for key, value in execution.items() if key != "env"}}
