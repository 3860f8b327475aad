"""The hook `POST /hooks/github`: `workflow_job` events of repositories, organisations and apps.

A delivery may be forged, repeated, late or out of order. The signature is checked before the body is read.
What a delivery says is durable before it is answered.
"""

from muster.domain.errors import InvalidRequest
from muster.domain.jobs import JobState
from muster.integrations.github.job_events import is_signed, read_event, sighting, state_of
from muster.integrations.github.job_intake import JobIntake, is_stale
from muster.integrations.github.requests import repository as checked_repository
from muster.ports.clock import Clock
from muster.ports.duties import Delivery, HookAnswer

TAKEN, IGNORED = 202, 200
MALFORMED, UNSIGNED, NOT_ALLOWED = 400, 401, 403


class GitHubHook:
    """Implements muster.ports.duties.Hook."""

    def __init__(self, intake: JobIntake, clock: Clock, *, secret: str, installation_id: str) -> None:
        self._intake = intake
        self._clock = clock
        self._secret = secret.encode()
        self._installation = installation_id

    async def take(self, delivery: Delivery) -> HookAnswer:
        if not is_signed(self._secret, delivery.body, delivery.headers.get("x-hub-signature-256", "")):
            words = (
                "the signature does not fit: the webhook and webhook_secret_file must have the same secret"
            )
            return HookAnswer(status=UNSIGNED, words=words)
        kind = delivery.headers.get("x-github-event", "")
        if kind == "ping":
            return HookAnswer(status=IGNORED, words="pong")
        if kind != "workflow_job":
            return HookAnswer(
                status=IGNORED, words=f"ignored: Muster needs workflow_job events, not {kind[:40]}"
            )
        try:
            return await self._job(delivery.body)
        except InvalidRequest as error:
            return HookAnswer(status=MALFORMED, words=str(error))

    async def _job(self, body: bytes) -> HookAnswer:
        event = read_event(body)
        name = checked_repository("repository", event.repository.full_name)
        state = state_of(event.workflow_job, action=event.action)
        if state is None:
            return HookAnswer(status=IGNORED, words="ignored: the job waits for something else than a runner")
        if await self._intake.choose(event.workflow_job.labels, name) is None:
            return HookAnswer(status=IGNORED, words="ignored: its labels are of no template here")
        now = self._clock.now()
        seen = sighting(event.workflow_job, name, state, installation_id=self._installation, now=now)
        if is_stale(seen, now=now):
            return HookAnswer(status=IGNORED, words="ignored: GitHub drops jobs that were queued for a day")
        (job,) = await self._intake.note([seen])
        if job.state is not JobState.QUEUED or job.operation_id is not None:
            return HookAnswer(status=TAKEN, words=f"job {job.id} is {job.state}")
        job = await self._intake.serve(job)
        if not self._intake.allows(name):
            return HookAnswer(status=NOT_ALLOWED, words=f"job {job.id} is not served: {job.detail}")
        if job.unserved is not None:
            return HookAnswer(status=TAKEN, words=f"job {job.id} is queued and not served: {job.detail}")
        return HookAnswer(status=TAKEN, words=f"job {job.id} is queued: {job.operation_id} gets its runner")
