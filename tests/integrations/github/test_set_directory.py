"""Registrations of scale sets' runners stay below a limit, and find their set by its name."""

import pytest

from fakes.github import GitHubState
from muster.domain.errors import Throttled
from muster.integrations.github.actions_service import ActionsService, SetMissing
from muster.integrations.github.registration_limit import RegistrationLimit
from muster.integrations.github.runners import RunnerSpec
from muster.integrations.github.scale_sets import ScaleSets
from muster.integrations.github.set_directory import SetDirectory, spec_of
from tests.integrations.github.conftest import API, Site

SPEC = spec_of(RunnerSpec(scope="acme/shop", scale_set="muster-linux"))


@pytest.fixture
def directory(site: Site) -> SetDirectory:
    registry = site.registry()
    service = ActionsService(site.http(), registry, site.clock, api_url=API, web_url=API)
    return SetDirectory(ScaleSets(service), registry, site.clock, RegistrationLimit(site.clock, 3))


def made(world: GitHubState) -> int:
    return world.sets.make("acme/shop", "muster-linux", 1, ()).id


async def test_more_registrations_than_the_limit_wait_until_a_minute_has_passed(
    site: Site, directory: SetDirectory
) -> None:
    made(site.world)
    for number in range(3):
        await directory.just_in_time(SPEC, f"runner-{number}")
        site.clock.at += 10.0
    with pytest.raises(Throttled, match="3 in a minute at most") as refused:
        await directory.just_in_time(SPEC, "runner-3")
    assert refused.value.retry_after == 30.0
    site.clock.at += 30.0
    await directory.just_in_time(SPEC, "runner-3")
    with pytest.raises(Throttled):
        await directory.just_in_time(SPEC, "runner-4")


async def test_a_set_is_found_once_and_again_when_it_was_made_anew(
    site: Site, directory: SetDirectory
) -> None:
    with pytest.raises(SetMissing, match="its listener makes it"):
        await directory.just_in_time(SPEC, "runner-0")
    first = made(site.world)
    await directory.just_in_time(SPEC, "runner-1")
    site.world.sets.vanish(site.world.sets.known[first])
    second = made(site.world)
    with pytest.raises(SetMissing, match="the scale set is gone"):
        await directory.just_in_time(SPEC, "runner-2")
    site.clock.at += 60.0
    await directory.just_in_time(SPEC, "runner-2")
    assert [each.set_id for each in site.world.of("acme/shop")] == [first, second]
