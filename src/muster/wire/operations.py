"""Operations: the progress payload that every client reads, and the record around it."""

import math
from typing import Annotated, Any, Self

from msgspec import Meta

from muster.domain import operation as domain
from muster.domain import progress
from muster.domain.codes import FailureCode, failure_code, help_for
from muster.domain.diagnosis import Diagnosis as Diagnosed
from muster.domain.operation import Kind, Status
from muster.domain.progress import Tone, percent_at
from muster.domain.reasons import ADVICE, Reason
from muster.domain.requests import ClusterCreateRequest, ProvisionRequest, RunRequest
from muster.domain.serialization import to_plain
from muster.domain.steps import STEPS, Steps
from muster.wire.base import EXAMPLE_TIME, PageQuery, Shape, Time, convert
from muster.wire.diagnoses import Diagnosis
from muster.wire.events import without_environment

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
    "motion": {"from_percent": 50.0, "to_percent": 60.0, "since": EXAMPLE_TIME, "expected_seconds": 45.0},
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
        "console_url": None,
    },
    "error": None,
}
MEMBER_EXAMPLE = {"node_id": "node-1hx2k9q0c7m3t8v5e2", "assignment_id": "as-1hx2k9q0c7m3t8v5e3"}


class Part(Shape):
    id: str
    name: str
    state: str
    tone: Tone
    detail: str = ""
    count: int = 1
    since: Time | None = None


class Motion(Shape):
    """How the bar moves by itself between two answers; docs/progress.md has the formula."""

    from_percent: float
    to_percent: float
    """The end of the step, which time alone never reaches."""
    since: Time
    expected_seconds: float

    @classmethod
    def of(cls, motion: progress.Motion) -> Self:
        return convert(
            cls,
            motion,
            from_percent=motion.low,
            to_percent=motion.high,
            expected_seconds=motion.expected,
        )


class Failure(Shape):
    code: FailureCode
    """What failed, in one word: provision_failed, run_failed …"""
    reason: Reason
    """Why."""
    message: str
    advice: str = ""
    help: str = ""
    """Where the reason is explained, on this server."""
    node_id: str | None = None
    """The node whose failure it was: /nodes/{node_id}/diagnosis tells more."""
    diagnosis: Diagnosis | None = None
    """Of that node; null in lists."""


class Detail(Shape):
    run: str | None = None
    template: str | None = None
    count: int | None = None
    result: str = ""
    cluster: str | None = None
    """The name of the cluster that it is about."""
    arm_elapsed_seconds: float | None = None
    """How long the provider has been making the cluster, while it does."""
    console_url: str | None = None
    """Where the provider's own console shows it."""


class Progress(Shape):
    """One shape for every kind of operation: API, event stream, CLI and page all read this."""

    EXAMPLE = PROGRESS_EXAMPLE

    operation_id: str
    kind: Kind
    status: Status
    phase: str | None = None
    label: str | None = None
    step: int | None = None
    total_steps: int | None = None
    message: str = ""
    percent: float | None = None
    """Where the bar stands at the time of this answer."""
    motion: Motion | None = None
    """Null: the bar stands."""
    eta_seconds: float | None = None
    elapsed_seconds: float = 0.0
    started_at: Time
    updated_at: Time
    deadline_at: Time
    parts: tuple[Part, ...] = ()
    detail: Detail
    error: Failure | None = None

    @property
    def ended(self) -> bool:
        return self.status in domain.ENDED

    @classmethod
    def of(
        cls,
        operation: domain.Operation,
        *,
        now: float,
        diagnosis: Diagnosed | None = None,
        steps: Steps | None = None,
    ) -> Self:
        """Make the payload, or the whole record of an `Operation`, as it is at `now`.

        `steps`: of work on a cluster, as its provider declares them.
        """
        all_steps = STEPS.get(operation.kind, ()) if steps is None else steps
        shown = operation.progress
        ended = operation.ended_at if operation.ended_at is not None else now
        return convert(
            cls,
            operation,
            operation_id=operation.id,
            phase=shown.phase if shown else None,
            label=shown.label if shown else None,
            step=shown.step if shown else None,
            total_steps=shown.total_steps if shown else None,
            message=shown.message if shown else "",
            percent=_down(percent_at(shown, ended)) if shown else None,
            motion=Motion.of(shown.motion) if shown and shown.motion and not operation.ended else None,
            eta_seconds=_eta(operation, now),
            elapsed_seconds=round(max(0.0, ended - operation.created_at), 3),
            started_at=operation.created_at,
            parts=shown.parts if shown else (),
            detail=_detail(operation, now),
            error=_error(operation, diagnosis),
            steps=tuple(Step(phase=each.phase, label=each.label) for each in all_steps),
            request=_request(operation),
        )


class Step(Shape):
    phase: str
    label: str


class Operation(Progress):
    """The progress payload, and what else the record holds."""

    EXAMPLE = {
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

    steps: tuple[Step, ...] = ()
    """All that its kind goes through, in order."""
    run: str | None = None
    template: str | None = None
    idempotency_key: str | None = None
    version: int = 0
    request: dict[str, Any] = {}
    members: tuple[domain.Member, ...] = ()
    result: str = ""
    deadline_source: str = ""
    queued_since: Time | None = None
    cancel_requested_at: Time | None = None
    committed_at: Time | None = None
    ended_at: Time | None = None


class Why(Shape):
    EXAMPLE = {
        "operation_id": "op-1hx2k9q0c7m3t8v5e1",
        "status": "queued",
        "waits_for": "room under max_nodes of ci (20 of 20 in use)",
        "since": EXAMPLE_TIME,
        "until": EXAMPLE_TIME,
        "position": 1,
        "because": "",
        "advice": "",
    }

    operation_id: str
    status: Status
    waits_for: str
    since: Time
    until: Time
    position: int | None = None
    because: str = ""
    """Why it ended as it did; empty before that."""
    advice: str = ""


class OperationsQuery(PageQuery):
    kind: Kind | None = None
    status: Annotated[tuple[Status, ...], Meta(max_length=len(Status))] = ()
    run: str | None = None


class Extension(Shape):
    EXAMPLE = {"by": 1800}

    by: float
    """Seconds."""


def _down(percent: float) -> float:
    """Round down to two decimals: a step that is nearly over is not over."""
    return math.floor(percent * 100.0 + 1e-6) / 100.0


def _eta(operation: domain.Operation, now: float) -> float | None:
    shown = operation.progress
    if operation.ended or shown is None or shown.expected_at is None or shown.expected_at <= now:
        return None
    return round(shown.expected_at - now, 1)


def _detail(operation: domain.Operation, now: float) -> Detail:
    request = operation.request
    if isinstance(request, RunRequest):
        request = request.provision
    shown = operation.progress
    since = shown.provider_since if shown is not None and not operation.ended else None
    return Detail(
        run=operation.run,
        template=operation.template,
        count=request.count if isinstance(request, ProvisionRequest) else None,
        result=operation.result,
        cluster=request.name if isinstance(request, ClusterCreateRequest) else None,
        arm_elapsed_seconds=None if since is None else round(max(0.0, now - since), 3),
        console_url=(shown.link or None) if shown is not None else None,
    )


def _error(operation: domain.Operation, diagnosis: Diagnosed | None) -> Failure | None:
    verdict = operation.verdict
    if verdict is None:
        return None
    return Failure(
        code=failure_code(operation.kind, operation.status),
        reason=verdict.reason,
        message=verdict.message,
        advice=verdict.advice or ADVICE[verdict.reason],
        help=help_for(verdict.reason),
        node_id=verdict.node_id,
        diagnosis=convert(Diagnosis, diagnosis) if diagnosis is not None else None,
    )


def _request(operation: domain.Operation) -> dict[str, Any]:
    plain = to_plain(operation.request)
    assert isinstance(plain, dict)  # noqa: S101 — a dataclass is encoded field by field
    return without_environment(plain)
