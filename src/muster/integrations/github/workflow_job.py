"""A job of a workflow, as events and the REST API show it."""

from datetime import datetime

import msgspec


class WorkflowJob(msgspec.Struct, frozen=True, kw_only=True):
    id: int
    run_id: int
    status: str
    name: str = ""
    run_attempt: int | None = None
    workflow_name: str | None = None
    conclusion: str | None = None
    created_at: datetime | None = None
    started_at: datetime | None = None
    completed_at: datetime | None = None
    labels: tuple[str, ...] = ()
    runner_id: int | None = None
    runner_name: str | None = None
