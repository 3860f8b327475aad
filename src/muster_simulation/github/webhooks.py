"""Webhooks as GitHub sends them: `workflow_job` events of the small GitHub's jobs, signed."""

import hashlib
import hmac
import json
import uuid
from datetime import UTC, datetime
from typing import Any

from muster_simulation.github.state import Job

SECRET = "a-secret-of-the-webhook"


def event_of(job: Job, action: str) -> dict[str, Any]:
    """Return the event, with the fields that the real one has and Muster reads, and some that it doesn't."""
    ran = action != "queued" and bool(job.runner)
    return {
        "action": action,
        "workflow_job": {
            "id": job.id,
            "run_id": job.run_id,
            "run_attempt": job.attempt,
            "workflow_name": "CI",
            "name": job.name,
            "status": action,
            "conclusion": job.conclusion if action == "completed" else None,
            "created_at": _iso(job.queued_at),
            "started_at": _iso(job.started_at or job.queued_at),
            "completed_at": _iso(job.finished_at or job.queued_at) if action == "completed" else None,
            "labels": list(job.labels),
            "runner_id": job.runner_id if ran else None,
            "runner_name": job.runner if ran else None,
            "runner_group_id": 1 if ran else None,
            "steps": [],
        },
        "repository": {"id": 1, "full_name": job.repository, "private": True},
        "sender": {"login": "octocat", "id": 1},
    }


def signed(
    event: dict[str, Any] | bytes, *, secret: str = SECRET, kind: str = "workflow_job"
) -> tuple[dict[str, str], bytes]:
    """Return the headers and the body of a delivery."""
    body = event if isinstance(event, bytes) else json.dumps(event).encode()
    headers = {
        "content-type": "application/json",
        "user-agent": "GitHub-Hookshot/fake",
        "x-github-event": kind,
        "x-github-delivery": str(uuid.uuid4()),
        "x-hub-signature-256": "sha256=" + hmac.new(secret.encode(), body, hashlib.sha256).hexdigest(),
    }
    return headers, body


def _iso(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
