"""Remember where runners that were provisioned may be registered, and under which labels.

Reads a bounded number of provisions per look, from the newest back to the oldest, and remembers them. A
restart reads them again. Owns nothing.
"""

import asyncio
from dataclasses import dataclass

from muster.domain.operation import Kind, Operation, Status
from muster.domain.requests import ProvisionRequest
from muster.domain.template import Template
from muster.integrations.github.requests import JOB, WORKFLOW
from muster.integrations.github.runners import Scope, scope_of
from muster.integrations.github.tables import TEMPLATE
from muster.ports.duties import DutyContext
from muster.ports.store import Cursor, if_found

BATCH = 100
BATCHES_MOST = 20
"""In one look."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Gap:
    """Provisions that were not read yet: those after the cursor that aren't older than `until`."""

    after: Cursor | None
    until: float


class ProvisionedScopes:
    def __init__(self, given: DutyContext) -> None:
        self._store = given.store
        self._clock = given.clock
        self._keep = given.settings.retention
        self._turn = asyncio.Lock()
        self._newest = 0.0
        self._gaps: tuple[_Gap, ...] = ()
        """The newest first."""
        self._scopes: dict[Scope, float] = {}
        self._repositories: dict[str, float] = {}

    async def scopes(self) -> list[Scope]:
        """Return where our runners may be."""
        await self._read()
        return sorted(self._scopes)

    async def repositories(self) -> list[str]:
        """Return the repositories whose workflows were given labels."""
        await self._read()
        return sorted(self._repositories)

    async def _read(self) -> None:
        async with self._turn:
            since = self._clock.now() - self._keep
            gaps = (_Gap(after=None, until=self._newest), *self._gaps)
            templates: dict[str, Template | None] = {}
            for _ in range(BATCHES_MOST):
                if not gaps:
                    break
                rest = await self._read_page(gaps[0], since, templates)
                # After every page: the next one may fail, and what isn't read then must not be forgotten.
                gaps = self._gaps = (*(() if rest is None else (rest,)), *gaps[1:])
            self._scopes = {scope: at for scope, at in self._scopes.items() if at >= since}
            self._repositories = {name: at for name, at in self._repositories.items() if at >= since}

    async def _read_page(self, gap: _Gap, since: float, templates: dict[str, Template | None]) -> _Gap | None:
        """Read one page; return what is left of the gap."""
        page = await self._store.operations(
            kind=Kind.PROVISION, statuses=tuple(Status), run=None, after=gap.after, limit=BATCH
        )
        for operation in page.items:
            await self._remember(operation, templates)
        self._newest = max([self._newest, *(operation.created_at for operation in page.items)])
        if page.next is None or page.items[-1].created_at < max(gap.until, since):
            return None
        return _Gap(after=page.next, until=gap.until)

    async def _remember(self, operation: Operation, templates: dict[str, Template | None]) -> None:
        request = operation.request
        if not isinstance(request, ProvisionRequest):
            return
        if request.template not in templates:
            templates[request.template] = await if_found(self._store.template(request.template))
        template = templates[request.template]
        if template is None or template.spec.runtime != "github":
            return
        workflow = WORKFLOW.of(request)
        scope = scope_of(TEMPLATE.of(template.spec), workflow or JOB.of(request))
        if scope is None:
            return
        self._scopes[scope] = max(self._scopes.get(scope, 0.0), operation.created_at)
        if workflow is not None:
            name = workflow.repository
            self._repositories[name] = max(self._repositories.get(name, 0.0), operation.created_at)
