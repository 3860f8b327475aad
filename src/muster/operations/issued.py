"""For whom runners were provisioned lately: where they may be registered, and which labels were given out.

Read from the newest provisions on, and remembered; a restart reads it again. Owns nothing.
"""

from muster.domain.errors import NotFound
from muster.domain.operation import Kind, Operation, Status
from muster.domain.requests import ProvisionRequest
from muster.domain.settings import Settings
from muster.domain.template import Runtime
from muster.domain.workflow import Scope, scope_of
from muster.ports.bundle import Ports
from muster.ports.store import Cursor

BATCH = 100
BATCHES_MOST = 20
"""At a start; after that, only what is new is read."""


class Issued:
    def __init__(self, ports: Ports, settings: Settings) -> None:
        self._store = ports.store
        self._clock = ports.clock
        self._keep = settings.retention
        self._read_until = 0.0
        self._scopes: dict[Scope, float] = {}
        self._repositories: dict[str, float] = {}

    async def scopes(self) -> list[Scope]:
        """Where our runners may be."""
        await self._read()
        return sorted(self._scopes)

    async def repositories(self) -> list[str]:
        """Whose workflows were given labels."""
        await self._read()
        return sorted(self._repositories)

    async def _read(self) -> None:
        cursor: Cursor | None = None
        newest = self._read_until
        for _ in range(BATCHES_MOST):
            page = await self._store.operations(
                kind=Kind.PROVISION, statuses=tuple(Status), run=None, after=cursor, limit=BATCH
            )
            for operation in page.items:
                newest = max(newest, operation.created_at)
                await self._remember(operation)
            cursor = page.next
            if cursor is None or page.items[-1].created_at < self._read_until:
                break
        self._read_until = newest
        since = self._clock.now() - self._keep
        self._scopes = {scope: at for scope, at in self._scopes.items() if at >= since}
        self._repositories = {name: at for name, at in self._repositories.items() if at >= since}

    async def _remember(self, operation: Operation) -> None:
        request = operation.request
        if operation.created_at < self._read_until or not isinstance(request, ProvisionRequest):
            return
        try:
            template = await self._store.template(request.template)
        except NotFound:
            return
        scope = scope_of(template.spec.runner, request.workflow)
        if template.spec.runtime is not Runtime.GITHUB or scope is None:
            return
        self._scopes[scope] = max(self._scopes.get(scope, 0.0), operation.created_at)
        if request.workflow is not None:
            name = request.workflow.repository
            self._repositories[name] = max(self._repositories.get(name, 0.0), operation.created_at)
