"""Make templates current, with the files that this server puts on nodes.

A server that starts with another agent, address or runner version gives the templates new revisions. Nodes
of the old revisions are then retired.
"""

from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from dataclasses import replace
from difflib import get_close_matches
from functools import partial

from muster.domain.errors import Conflict, InvalidRequest, NotFound
from muster.domain.lifecycle import NodeState
from muster.domain.serialization import fields_to_plain
from muster.domain.template import Reuse, Template, TemplatePlan, TemplateSpec, planned
from muster.ports.bundle import Ports
from muster.ports.provider import UnmetRequirement


class TemplateDesk:
    def __init__(self, ports: Ports) -> None:
        self._ports = ports
        self._store = ports.store

    @property
    def providers(self) -> Collection[str]:
        """Return the names of the node providers that this server has."""
        return self._ports.providers.keys()

    async def apply(self, spec: TemplateSpec, *, actor: str = "") -> Template:
        """Make it current. The revision rises only with what nodes are made from. Raises InvalidRequest as
        `check` does."""
        spec = self._whole(spec)
        self.check(spec)
        return await self._store.apply_template(
            self._outfitted(spec), now=self._ports.clock.now(), actor=actor
        )

    async def plan(self, spec: TemplateSpec) -> TemplatePlan:
        """Return what applying the template would change and cost, and every reason to refuse it."""
        errors = tuple(self._errors(spec))
        with suppress(InvalidRequest):  # that is one of the errors
            spec = self._whole(spec)
        try:
            before = await self._store.template(spec.name)
        except NotFound:
            return planned(None, spec, warm=0, boots=0, errors=errors)
        return planned(
            before,
            self._outfitted(spec),
            warm=await self._store.count_nodes(state=NodeState.IDLE, template=spec.name),
            boots=len(await self._store.boots(spec.name, before.revision)),
            errors=errors,
        )

    def check(self, spec: TemplateSpec) -> None:
        """Raise InvalidRequest for what nodes should not, or can't, be made from by this server."""
        for error in self._errors(spec):
            raise error

    def _errors(self, spec: TemplateSpec) -> Iterator[InvalidRequest]:
        checks: list[Callable[[], object]] = [partial(self._whole, spec)]
        checks += [partial(part.check, spec) for part in self._ports.template_parts]
        for check in checks:
            try:
                check()
            except InvalidRequest as error:
                yield error
        lacks = unmet_requirement(self._ports, spec)
        if lacks is not None:
            rule = f"{lacks.why} (template {spec.name})"
            yield InvalidRequest(lacks.field, fields_to_plain(spec).get(lacks.field), rule)

    def _whole(self, spec: TemplateSpec) -> TemplateSpec:
        """Return the template with every table as it is stored. Raises InvalidRequest for an
        unusable table."""
        found = {part.name: part.whole(spec) for part in self._ports.template_parts}
        for name in spec.tables if found else ():
            if name not in found:
                rule = f"is no table that this server knows: it knows {', '.join(sorted(found))}"
                raise InvalidRequest(name, "…", rule)
        return replace(spec, tables={**spec.tables, **found})

    async def retire(self, name: str, *, actor: str = "") -> Template:
        """Stop giving out its nodes until it is applied again. Raises Conflict if it is just being
        applied."""
        template = await self._store.template(name)
        if template.spec.retired:
            return template
        spec = replace(template.spec, retired=True, min_idle=0)
        return await self._store.apply_template(
            spec, now=self._ports.clock.now(), actor=actor, over=template.version
        )

    async def renew(self, *, actor: str = "") -> list[Template]:
        """Apply this server's outfit to every template. Return those that changed."""
        renewed: list[Template] = []
        for template in await self._store.templates():
            spec = self._outfitted(template.spec)
            if spec == template.spec or spec.retired:
                continue
            with suppress(Conflict):  # it was applied anew, with an outfit
                now = self._ports.clock.now()
                renewed.append(
                    await self._store.apply_template(spec, now=now, actor=actor, over=template.version)
                )
        return renewed

    def _outfitted(self, spec: TemplateSpec) -> TemplateSpec:
        return replace(spec, outfit=self._ports.outfit(spec.machine))


def unmet_requirement(ports: Ports, spec: TemplateSpec) -> UnmetRequirement | None:
    known = sorted({*ports.providers, *ports.cluster_providers})
    if spec.provider not in known:
        why = f"the provider {spec.provider} is not configured on this server"
        return UnmetRequirement(field="provider", why=f"{why}; {_advice(ports, spec.provider, known)}")
    if spec.kitted and spec.runtime not in ports.runtimes:
        why = f"the runtime {spec.runtime} is not configured on this server"
        return UnmetRequirement(
            field="runtime", why=f"{why}: {ports.setup.get(spec.runtime) or 'see its settings'}"
        )
    if spec.reuse is Reuse.ALWAYS and spec.provider in ports.unisolated:
        return UnmetRequirement(
            field="reuse",
            why=f"a node goes from owner to owner only with a sandbox around each run, and {spec.provider} "
            f'has none here ({ports.unisolated[spec.provider]}): use "same-owner" or "never"',
        )
    return next((found for each in ports.lacks if (found := each(spec)) is not None), None)


def _advice(ports: Ports, provider: str, known: list[str]) -> str:
    setup = ports.setup.get(provider) or ports.setup.get(provider.partition("-")[0])
    if setup:
        return setup
    close = get_close_matches(provider, known, n=1, cutoff=0.6)
    if close:
        return f"did you mean {close[0]}?"
    packages = f"a package may bring it: `pip install muster-{provider}`"
    return f"it has {', '.join(known)}; {packages}"
