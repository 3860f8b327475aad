"""What an operator should know of a scale set, although it works: for its state and for `muster doctor`."""

from contextlib import suppress

from muster.domain.errors import NotFound, ProviderError
from muster.domain.template import Template
from muster.integrations.github.registry import GitHubRegistry
from muster.integrations.github.runners import Scope
from muster.integrations.github.scale_set_shapes import ScaleSet
from muster.integrations.github.scale_sets import ScaleSets, SetSpec
from muster.integrations.github.tables import TEMPLATE
from muster.ports.store import Store

REVISIONS = 20
"""Earlier revisions of a template that are looked at for labels which its set had from us."""


async def remarks(sets: ScaleSets, spec: SetSpec, found: ScaleSet) -> tuple[str, ...]:
    return (*dropped_labels(spec, found), *await same_names(sets, spec, found.runner_group_id))


def dropped_labels(spec: SetSpec, found: ScaleSet) -> tuple[str, ...]:
    dropped = [each for each in spec.all_labels if each.lower() not in found.label_names]
    if not dropped:
        return ()
    words = f"GitHub dropped the labels {', '.join(dropped)}: jobs that ask for them never come"
    return (f"{words}; GHES keeps several labels from 3.21 on",)


async def same_names(sets: ScaleSets, spec: SetSpec, group_id: int) -> tuple[str, ...]:
    others = await sets.elsewhere(spec, group_id)
    if not others:
        return ()
    groups = ", ".join(sorted(each.runner_group_name or str(each.runner_group_id) for each in others))
    return (f"a set of the same name is in the group {groups}: GitHub shares the jobs between them",)


async def refuses_public(registry: GitHubRegistry, spec: SetSpec) -> bool:
    """Return whether the set's group gets no jobs of public repositories. False: it does, or who knows."""
    try:
        return await registry.refuses_public(spec.scope, group=spec.group)
    except ProviderError:
        return False


async def earlier_labels(store: Store, template: Template, scope: Scope) -> list[frozenset[str]]:
    """Return labels, in lower case, that earlier revisions of the template gave the set."""
    found: list[frozenset[str]] = []
    for revision in range(max(1, template.revision - REVISIONS), template.revision):
        with suppress(NotFound):
            runner = TEMPLATE.of((await store.template(template.name, revision)).spec)
            if runner.scale_set:
                spec = SetSpec(scope=scope, name=runner.scale_set, labels=runner.labels)
                found.append(frozenset(each.lower() for each in spec.all_labels))
    return found
