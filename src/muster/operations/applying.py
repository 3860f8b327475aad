"""Templates become current here: as operators write them, with the outfit that this server gives to nodes.

A server that starts with another agent, address or runner than the last one gives the templates new
revisions, so that nodes which were made before are retired like those of any old revision.
"""

from dataclasses import replace

from muster.domain.errors import Conflict, InvalidRequest
from muster.domain.template import Template, TemplateSpec
from muster.operations.lacking import lack
from muster.ports.bundle import Ports


class TemplateDesk:
    def __init__(self, ports: Ports) -> None:
        self._ports = ports
        self._store = ports.store

    async def apply(self, spec: TemplateSpec, *, actor: str = "") -> Template:
        """Equal content keeps its revision. Raises InvalidRequest as `check` does."""
        self.check(spec)
        return await self._store.apply_template(
            self._outfitted(spec), now=self._ports.clock.now(), actor=actor
        )

    def check(self, spec: TemplateSpec) -> None:
        """Raises InvalidRequest for what nodes should not be made from, or can't be by this server."""
        spec.check_sharing()
        if spec.cluster is not None:
            spec.cluster.check_sizes()
        lacks = lack(self._ports, spec)
        if lacks is not None:
            raise InvalidRequest(
                lacks.field, getattr(spec, lacks.field), f"{lacks.why} (template {spec.name})"
            )

    async def retire(self, name: str, *, actor: str = "") -> Template:
        """Give nobody nodes of it any more, until it is applied again. Raises Conflict if it is just being
        applied."""
        template = await self._store.template(name)
        if template.spec.retired:
            return template
        spec = replace(template.spec, retired=True, min_idle=0)
        return await self._store.apply_template(
            spec, now=self._ports.clock.now(), actor=actor, over=template.revision
        )

    async def renew(self, *, actor: str = "") -> list[Template]:
        """Every template with this server's outfit. Those that changed."""
        renewed: list[Template] = []
        for template in await self._store.templates():
            spec = self._outfitted(template.spec)
            if spec == template.spec or spec.retired:
                continue
            try:
                now = self._ports.clock.now()
                renewed.append(
                    await self._store.apply_template(spec, now=now, actor=actor, over=template.revision)
                )
            except Conflict:
                continue  # somebody applied it anew, with an outfit
        return renewed

    def _outfitted(self, spec: TemplateSpec) -> TemplateSpec:
        return replace(spec, outfit=self._ports.outfit(spec))
