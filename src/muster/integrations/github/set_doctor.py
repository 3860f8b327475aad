"""Check scale sets for `muster doctor`: rights, group, name and labels. Makes and changes nothing."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from muster.domain.errors import ProviderError, Throttled
from muster.integration import Check
from muster.integrations.github.scale_sets import SetSpec
from muster.integrations.github.set_directory import SetDirectory, spec_of
from muster.integrations.github.set_remarks import refuses_public, same_names
from muster.integrations.github.tables import TEMPLATE

if TYPE_CHECKING:
    from muster.config import Config

SUBJECT = "scale set"


def sets_of(config: "Config") -> list[tuple[str, SetSpec]]:
    """Return the scale sets that templates name, each with its template."""
    named = [(each.name, TEMPLATE.of(each)) for each in config.templates if each.runtime == "github"]
    return [(name, spec_of(runner)) for name, runner in named if runner.scale_set]


async def check_sets(config: "Config", directory: SetDirectory) -> list[Check]:
    found: list[Check] = []
    met: dict[SetSpec, str] = {}
    for template, spec in sets_of(config):
        first = met.setdefault(spec, template)
        if first != template:
            words = f"templates {first} and {template} name the same scale set {spec.name}: {first} has it"
            found.append(_warning(words, "give one of them another scale_set"))
        else:
            found += await _checked(spec, directory)
    return found


async def _checked(spec: SetSpec, directory: SetDirectory) -> Sequence[Check]:
    called = f"{spec.name} of {spec.scope}"
    try:
        group_id = await directory.sets.group_id(spec)
        known = await directory.sets.find(spec, group_id)
        remarks = await same_names(directory.sets, spec, group_id)
    except Throttled as error:
        return [_warning(str(error), "look again later")]
    except ProviderError as error:
        advice = "check credentials, rights and runner.group: docs/github.md lists the rights"
        return [Check.failed(SUBJECT, str(error), advice)]
    found = [_warning(f"{called}: {words}", "remove the other set, or rename this one") for words in remarks]
    if await refuses_public(directory.registry, spec):
        words = f"{called}: its runner group gets no jobs of public repositories"
        found.append(_warning(words, "allow public repositories in the group's settings, if you need them"))
    extra = (
        known.label_names - {each.lower() for each in spec.all_labels} if known is not None else frozenset()
    )
    if extra:
        words = f"{called} exists with labels that its template does not have: {', '.join(sorted(extra))}"
        advice = "choose another name if another program made it; a server that made it changes the labels"
        found.append(_warning(words, advice))
    state = "is there" if known is not None else "can be made"
    return [*found, Check.ok(SUBJECT, f"{called} {state}")]


def _warning(words: str, advice: str) -> Check:
    return Check.warning(SUBJECT, words, advice)
