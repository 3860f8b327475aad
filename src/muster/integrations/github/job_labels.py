"""Find the template for a job. Pure: labels, repository and offers in, a choice or its refusal out.

A label is a name, or a name with options: `muster-linux/xlarge/spot`. An option is a resource class or a
usage, in any order, each at most once. GitHub ignores the case of labels, and so does this module.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from muster.domain.template import RESOURCE_CLASSES, Template, UsageClass
from muster.integrations.github.runners import Scope
from muster.integrations.github.tables import TEMPLATE

USAGES = {
    "spot": (UsageClass.SPOT,),
    "on-demand": (UsageClass.ON_DEMAND,),
    "spot-then-on-demand": (UsageClass.SPOT, UsageClass.ON_DEMAND),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """What a template offers to jobs."""

    template: str
    labels: frozenset[str]
    """In lower case."""
    sizes: tuple[str, ...] = ()
    """Resource classes that labels may ask for; empty: any."""
    scope: Scope | None = None
    """Where its runners are registered; None: at the job's repository."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    template: str
    resource_class: str | None = None
    """None: the template's own."""
    usage: tuple[UsageClass, ...] | None = None


@dataclass(frozen=True, slots=True)
class NoChoice:
    """The labels name one of ours, and no template serves all of them."""

    detail: str


def offers(templates: Iterable[Template]) -> list[Offer]:
    """Return what templates offer to jobs that name labels."""
    found: list[Offer] = []
    for template in templates:
        if template.spec.runtime != "github" or template.spec.retired:
            continue
        runner = TEMPLATE.of(template.spec)
        if runner.labels and not runner.scale_set:  # jobs of a scale set come to its listener
            own = frozenset(label.lower() for label in runner.labels)
            scope = Scope.named(runner.scope) if runner.scope else None
            found.append(Offer(template=template.name, labels=own, sizes=runner.sizes, scope=scope))
    return found


def choose(labels: Sequence[str], repository: str, offered: Sequence[Offer]) -> Choice | NoChoice | None:
    """Return the template for a job's labels. None: the job is meant for other runners.

    The template must have every label, and a scope that covers the repository. Of several, the one with the
    fewest labels is chosen, then by name.
    """
    wanted = [label.lower() for label in labels]
    if not any(_names(each, offer) for each in wanted for offer in offered):
        return None
    refusals: list[str] = []
    for offer in sorted(offered, key=lambda each: (len(each.labels), each.template)):
        found = _matched(wanted, repository, offer)
        if isinstance(found, Choice):
            return found
        if found is not None:
            refusals.append(found.detail)
    return NoChoice(refusals[0] if refusals else f"labels {', '.join(labels)}")


def _names(label: str, offer: Offer) -> bool:
    return label in offer.labels or label.partition("/")[0] in offer.labels


def _matched(wanted: Sequence[str], repository: str, offer: Offer) -> Choice | NoChoice | None:
    """Return the choice. None: the template lacks a label. NoChoice: it has them, and something else is
    wrong."""
    if not wanted or not all(_names(each, offer) for each in wanted):
        return None
    if offer.scope is not None and not offer.scope.covers(repository):
        return NoChoice(f"{offer.template} has its runners at {offer.scope}, not for {repository}")
    size: str | None = None
    usage: tuple[UsageClass, ...] | None = None
    for label in wanted:
        if label in offer.labels:
            continue
        for option in label.split("/")[1:]:
            if option in RESOURCE_CLASSES and size is None:
                size = option
            elif option in USAGES and usage is None:
                usage = USAGES[option]
            else:
                return NoChoice(f"{label}: {_wrong(option)}")
    if size is not None and offer.sizes and size not in offer.sizes:
        return NoChoice(f"{offer.template} allows the sizes {', '.join(offer.sizes)}, not {size}")
    return Choice(template=offer.template, resource_class=size, usage=usage)


def _wrong(option: str) -> str:
    if option in RESOURCE_CLASSES or option in USAGES:
        return f"{option} is a second size or usage"
    known = ", ".join((*RESOURCE_CLASSES, *USAGES))
    return f"{option or 'an empty option'} is neither a size nor a usage: they are {known}"
