"""Runners and runs, as the registry port promises, over a stateful GitHub with its faults."""

import asyncio

import pytest

from muster.api.metrics import timed
from muster.domain.errors import ProviderError, Refused, Throttled, Uncertain
from muster.integrations.github.api import PAGE, PAGES_MOST, PAUSE_LEAST
from muster.integrations.github.registry import FINE_FOR, REFUSED_FOR
from muster.integrations.github.runners import RunStatus, Scope
from tests.integrations.github.conftest import Site

SHOP = Scope.named("acme/shop")
ACME = Scope.named("acme")


async def test_a_just_in_time_runner_is_registered_offline_with_its_labels(site: Site) -> None:
    config = await site.registry().just_in_time(SHOP, name="r-1", labels=["7-1", "gpu"], group="")
    (runner,) = await site.registry().runners(SHOP)
    assert config and (runner.name, runner.labels) == ("r-1", ("7-1", "gpu"))
    assert not runner.online and not runner.busy


async def test_a_runner_is_online_once_it_has_connected(site: Site) -> None:
    registry = site.registry()
    await registry.just_in_time(SHOP, name="r-1", labels=["7-1"], group="")
    site.world.connect(site.world.of("acme/shop")[0])
    assert [runner.online for runner in await registry.runners(SHOP)] == [True]


async def test_a_name_that_is_taken_is_replaced_so_that_a_lost_answer_is_harmless(site: Site) -> None:
    registry = site.registry()
    site.world.fault("generate-jitconfig", performed=True)
    with pytest.raises(Uncertain):
        await registry.just_in_time(SHOP, name="r-1", labels=["7-1"], group="")
    (lost,) = site.world.of("acme/shop")
    assert await registry.just_in_time(SHOP, name="r-1", labels=["7-1"], group="")
    (kept,) = site.world.of("acme/shop")
    assert kept.credential != lost.credential, "what the first answer held is worthless"


async def test_a_name_that_a_busy_runner_has_is_not_registered_again(site: Site) -> None:
    """Its job goes on; the caller is to ask again."""
    registry = site.registry()
    await registry.just_in_time(SHOP, name="r-1", labels=["7-1"], group="")
    (runner,) = site.world.of("acme/shop")
    site.world.connect(runner)
    runner.busy = True
    with pytest.raises(Uncertain, match="the one named r-1 is busy"):
        await registry.just_in_time(SHOP, name="r-1", labels=["7-1"], group="")
    assert site.world.of("acme/shop") == [runner]
    assert site.world.asked("generate-jitconfig") == 2, "once by each, and not behind the busy one's back"


async def test_enterprises_have_runners_and_groups(site: Site) -> None:
    registry, big = site.registry(), Scope.named("enterprises/big-corp")
    site.world.groups["enterprises/big-corp"] = {"gpu": 9}
    await registry.check(big, group="gpu")
    assert await registry.registration_token(big)
    await registry.just_in_time(big, name="r-1", labels=["7-1"], group="gpu")
    (runner,) = await registry.runners(big)
    assert site.world.of("enterprises/big-corp")[0].group == 9
    assert await registry.remove(big, runner.id)
    asked = {path for _, path, _ in site.world.calls}
    assert asked and all(path.startswith("/enterprises/big-corp/actions/") for path in asked)


async def test_organisations_have_runners_and_groups(site: Site) -> None:
    site.world.groups["acme"] = {"big": 7}
    registry = site.registry()
    await registry.just_in_time(ACME, name="r-1", labels=["7-1"], group="big")
    await registry.just_in_time(ACME, name="r-2", labels=["7-1"], group="big")
    assert [runner.group for runner in site.world.of("acme")] == [7, 7]
    assert site.world.asked("runner-groups") == 1, "the group's number is remembered"


async def test_an_unknown_group_is_refused_with_those_that_there_are(site: Site) -> None:
    site.world.groups["acme"] = {"big": 7}
    with pytest.raises(Refused, match=r"runner group 'huge' of acme: there are Default, big"):
        await site.registry().check(ACME, group="huge")
    assert not site.world.of("acme")


async def test_more_runners_than_a_page_holds_are_all_listed(site: Site) -> None:
    for number in range(205):
        site.world.register("acme/shop", f"r-{number}", ["x"], ephemeral=True)
    assert len(await site.registry().runners(SHOP)) == 205
    assert site.world.asked("GET /repos/acme/shop/actions/runners") == 3


async def test_many_who_look_at_once_share_a_look_that_began_after_they_asked(site: Site) -> None:
    registry = site.registry()
    site.world.register("acme/shop", "r-1", ["x"], ephemeral=True)
    found = await asyncio.gather(*(registry.runners(SHOP) for _ in range(50)))
    assert all(len(each) == 1 for each in found)
    assert site.world.asked("GET /repos/acme/shop/actions/runners") <= 2


async def test_what_did_not_change_costs_nothing(site: Site) -> None:
    api = site.api()
    registry = type(site.registry())(api, site.clock)
    for _ in range(3):
        await registry.runners(SHOP)
    assert (api.requests, api.unchanged) == (3, 2)
    site.world.register("acme/shop", "r-1", ["x"], ephemeral=True)
    assert len(await registry.runners(SHOP)) == 1
    assert api.unchanged == 2


async def test_removing_is_idempotent_and_leaves_busy_runners_alone(site: Site) -> None:
    registry = site.registry()
    runner = site.world.register("acme/shop", "r-1", ["x"], ephemeral=False)
    site.world.connect(runner)
    runner.busy = True
    assert not await registry.remove(SHOP, runner.id)
    runner.busy = False
    assert await registry.remove(SHOP, runner.id)
    assert await registry.remove(SHOP, runner.id)
    assert await registry.find(SHOP, "r-1") is None


@pytest.mark.parametrize(
    ("status", "headers", "kind", "words"),
    [
        (401, {}, Refused, "the credentials are wrong, revoked or expired"),
        (403, {}, Refused, "lack the right"),
        (404, {}, Refused, "does not exist, or the credentials may not see it"),
        (422, {}, Refused, "refuses with 422"),
        (403, {"retry-after": "17"}, Throttled, "limits the rate"),
        (429, {}, Throttled, "limits the rate"),
        (500, {}, Uncertain, "fails with 500"),
        (503, {}, Uncertain, "fails with 503"),
        (0, {}, Uncertain, "cannot reach GitHub"),
    ],
)
async def test_each_refusal_says_what_to_do_next(
    site: Site, status: int, headers: dict[str, str], kind: type[ProviderError], words: str
) -> None:
    site.world.fault("registration-token", status, headers=headers)
    with pytest.raises(kind, match=words) as raised:
        await site.registry().registration_token(SHOP)
    assert type(raised.value) is kind
    assert str(raised.value).startswith("cannot ")
    assert "a-personal-token" not in str(raised.value)


async def test_a_pause_that_github_asks_for_is_kept_without_asking_again(site: Site) -> None:
    registry = site.registry()
    site.world.fault("runners", 403, headers={"retry-after": "17"})
    with pytest.raises(Throttled) as raised:
        await registry.runners(SHOP)
    assert raised.value.retry_after == 17.0
    asked = len(site.world.calls)
    site.clock.at += 16.5
    with pytest.raises(Throttled):
        await registry.registration_token(SHOP)
    assert len(site.world.calls) == asked
    site.clock.at += 0.5
    await registry.registration_token(SHOP)


async def test_a_pause_of_no_seconds_is_a_repeat_at_once_and_the_second_one_a_limit(site: Site) -> None:
    registry = site.registry()
    site.world.fault("registration-token", 429, headers={"retry-after": "0"})
    await registry.registration_token(SHOP)
    site.world.fault("registration-token", 429, headers={"retry-after": "0"}, times=2)
    with pytest.raises(Throttled) as raised:
        await registry.registration_token(SHOP)
    assert raised.value.retry_after == PAUSE_LEAST
    asked = len(site.world.calls)
    with pytest.raises(Throttled, match="GitHub asked for a pause"):
        await registry.registration_token(SHOP)
    assert len(site.world.calls) == asked


async def test_a_list_may_be_as_long_as_its_limit_and_no_longer(site: Site) -> None:
    most = PAGE * PAGES_MOST
    for number in range(most):
        site.world.register("acme/shop", f"r-{number}", ["x"], ephemeral=True)
    assert len(await site.registry().runners(SHOP)) == most
    site.world.register("acme/shop", "one-more", ["x"], ephemeral=True)
    with pytest.raises(Uncertain, match=f"there are more than {most}"):
        await site.registry().runners(SHOP)


async def test_a_spent_primary_limit_is_waited_for_until_its_reset(site: Site) -> None:
    reset = str(int(site.clock.at) + 1200)
    headers = {"x-ratelimit-remaining": "0", "x-ratelimit-reset": reset}
    site.world.fault("runners", 403, headers=headers)
    with pytest.raises(Throttled) as raised:
        await site.registry().runners(SHOP)
    assert raised.value.retry_after == pytest.approx(1200, abs=1)


async def test_whether_it_would_work_is_asked_once_a_minute_and_a_refusal_is_kept_for_a_moment(
    site: Site,
) -> None:
    registry = site.registry()
    for _ in range(5):
        await registry.check(SHOP, group="")
    assert len(site.world.calls) == 1
    site.clock.at += FINE_FOR
    site.world.tokens.clear()
    for _ in range(5):
        with pytest.raises(Refused, match="expired"):
            await registry.check(SHOP, group="")
    assert len(site.world.calls) == 2
    site.world.tokens.add("a-personal-token")
    site.clock.at += REFUSED_FOR
    await registry.check(SHOP, group="")


async def test_a_refused_registration_is_known_to_the_next_who_asks(site: Site) -> None:
    registry = site.registry()
    await registry.check(SHOP, group="")
    site.world.tokens.clear()
    with pytest.raises(Refused):
        await registry.registration_token(SHOP)
    with pytest.raises(Refused):
        await registry.check(SHOP, group="")


async def test_an_answer_that_makes_no_sense_is_uncertain(site: Site) -> None:
    site.world.fault("runners", 200, message="hello")
    with pytest.raises(Uncertain, match="can't be read"):
        await site.registry().runners(SHOP)


async def test_jobs_and_groups_that_make_no_sense_are_uncertain(site: Site) -> None:
    for entry in ("text", {"labels": 7}):
        site.world.fault("/jobs$", 200, body={"jobs": [entry]})
        with pytest.raises(Uncertain, match="can't be read"):
            await site.registry().workflow_jobs("acme/shop", 9)
    site.world.fault("runner-groups", 200, body={"runner_groups": [{"name": "gpu"}]})
    with pytest.raises(Uncertain, match="can't be read"):
        await site.registry().just_in_time(Scope.named("acme"), name="r", labels=["x"], group="gpu")


# --- runs -------------------------------------------------------------------------------------------------


async def test_a_run_is_over_when_it_completed_or_a_later_attempt_began(site: Site) -> None:
    registry, world = site.registry(), site.world
    run = world.begin("acme/shop", run_id=7)
    found = await registry.run("acme/shop", 7)
    assert found is not None and found.status is RunStatus.ACTIVE and not found.is_over(1)
    world.complete(run)
    found = await registry.run("acme/shop", 7)
    assert found is not None and found.is_over(1) and not found.is_over(2)
    run.held, run.attempt = True, 2
    found = await registry.run("acme/shop", 7)
    assert found is not None and found.is_over(1) and not found.is_over(2)
    assert await registry.run("acme/shop", 8) is None


async def test_runs_that_wait_or_work_are_listed_with_their_jobs(site: Site) -> None:
    registry, world = site.registry(), site.world
    over, working, waiting = (world.begin("acme/shop", run_id=number) for number in (7, 8, 9))
    world.complete(over)
    world.queue(waiting, "test", ["9-1"])
    job = world.queue(working, "test", ["8-1"])
    job.status = "in_progress"
    assert [run.run_id for run in await registry.active("acme/shop")] == [9, 8]
    (found,) = await registry.workflow_jobs("acme/shop", 9)
    assert (found.labels, found.status) == (("9-1",), "queued")
    (found,) = await registry.workflow_jobs("acme/shop", 8)
    assert found.status == "in_progress"


async def test_more_active_runs_than_a_page_holds_are_listed_up_to_a_thousand(site: Site) -> None:
    for number in range(1, 1206):
        run = site.world.begin("acme/shop", run_id=number)
        if number <= 205:
            site.world.queue(run, "test", ["x"])
    found = [run.run_id for run in await site.registry().active("acme/shop")]
    assert found == list(range(1205, 0, -1))
    site.world.begin("acme/shop", run_id=1206)
    found = [run.run_id for run in await site.registry().active("acme/shop")]
    assert len(found) == 1205 and 206 not in found, "the oldest that are under way come last"


async def test_labels_of_runners_are_told_without_their_case(site: Site) -> None:
    site.world.register("acme/shop", "r-1", ["GPU"], ephemeral=True)
    (runner,) = await site.registry().runners(SHOP)
    assert runner.labels == ("gpu",)


async def test_every_call_to_the_registry_can_be_watched_with_how_it_ended(site: Site) -> None:
    """GitHub's part in what is wrong is judged from this."""
    seen: list[tuple[str, str]] = []
    registry = timed(
        site.registry(),
        lambda verb, _seconds, error: seen.append((verb, type(error).__name__)),
    )
    await registry.runners(SHOP)
    site.world.fault("generate-jitconfig")
    with pytest.raises(ProviderError):
        await registry.just_in_time(SHOP, name="r-1", labels=["7-1"], group="")
    assert seen == [("runners", "NoneType"), ("just_in_time", "Uncertain")]
