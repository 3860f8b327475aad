"""The client of the Actions service against the small GitHub: tokens, sets, sessions, messages, runners."""

import asyncio

import pytest

from fakes.github import ScaleSet
from muster.domain.errors import Refused, Throttled, Uncertain
from muster.integrations.github.actions_service import (
    ActionsService,
    RunnerBusy,
    SessionMissing,
    SessionTaken,
    SetMissing,
)
from muster.integrations.github.runners import Scope
from muster.integrations.github.scale_set_shapes import (
    ASSIGNED,
    AVAILABLE,
    COMPLETED,
    STARTED,
    Message,
    time_of,
)
from muster.integrations.github.scale_sets import NameTaken, ScaleSets, SetSession, SetSpec
from muster_simulation.github.scalesets import FIRST_MESSAGE
from tests.integrations.github.conftest import API, Site

ACME = Scope.named("acme")
SPEC = SetSpec(scope=ACME, name="muster-linux", labels=("Gpu", "gpu", "MUSTER-linux"))
SHOP = "acme/shop"


@pytest.fixture
def sets(site: Site) -> ScaleSets:
    service = ActionsService(site.http(), site.registry(), site.clock, api_url=API, web_url=API)
    return ScaleSets(service)


async def listening(site: Site, sets: ScaleSets) -> tuple[SetSession, ScaleSet]:
    made = await sets.ensure(SPEC)
    return await sets.open(ACME, made.id, owner="one"), site.world.sets.known[made.id]


def queued(site: Site, count: int = 1) -> None:
    run = site.world.begin(SHOP)
    for number in range(count):
        site.world.queue(run, f"job {number}", ["muster-linux"])


async def received(session: SetSession, capacity: int = 100) -> Message:
    message = await session.poll(capacity=capacity)
    assert message is not None
    return message


# --- tokens ------------------------------------------------------------------------------------------


async def test_one_admin_token_serves_all_calls_until_shortly_before_its_end(
    site: Site, sets: ScaleSets
) -> None:
    await asyncio.gather(*(sets.group_id(SetSpec(scope=ACME, name="a", group="Default")) for _ in range(5)))
    assert site.world.asked("runner-registration") == 1
    site.clock.at += site.world.sets.admin_life - 61
    await sets.ensure(SPEC)
    assert site.world.asked("runner-registration") == 1
    site.clock.at += 1
    await sets.ensure(SPEC)
    assert site.world.asked("runner-registration") == 2


async def test_calls_that_meet_the_end_of_a_token_share_one_new_token(site: Site, sets: ScaleSets) -> None:
    await sets.ensure(SPEC)
    site.world.sets.expire("admin")
    await asyncio.gather(*(sets.ensure(SPEC) for _ in range(5)))
    assert site.world.asked("runner-registration") == 2


async def test_a_fresh_admin_token_that_is_refused_names_the_rights(site: Site, sets: ScaleSets) -> None:
    site.world.fault("GET .*/runnerscalesets", 401, times=2)
    with pytest.raises(Refused, match=r"refuses a fresh token of acme; check the credentials' rights"):
        await sets.ensure(SPEC)


async def test_a_registration_token_that_is_not_known_yet_is_tried_again_later(
    site: Site, sets: ScaleSets
) -> None:
    site.world.fault("runner-registration", 403)
    with pytest.raises(Uncertain, match="does not accept its own registration token"):
        await sets.ensure(SPEC)
    assert (await sets.ensure(SPEC)).name == "muster-linux"


async def test_credentials_without_rights_are_refused_with_the_rest_apis_words(
    site: Site, sets: ScaleSets
) -> None:
    site.world.fault("registration-token", 403, message="Resource not accessible by integration")
    with pytest.raises(Refused, match="lack the right"):
        await sets.ensure(SPEC)


async def test_polls_that_meet_the_end_of_the_queue_token_renew_the_session_once(
    site: Site, sets: ScaleSets
) -> None:
    session, _ = await listening(site, sets)
    site.world.sets.expire("queue")
    await asyncio.gather(session.poll(capacity=1), session.acknowledge(FIRST_MESSAGE))
    assert site.world.asked("PATCH") == 1


async def test_no_repr_of_a_session_or_a_configuration_shows_its_secret(site: Site, sets: ScaleSets) -> None:
    session, _ = await listening(site, sets)
    assert session.current.message_queue_access_token not in repr(session)


# --- sets --------------------------------------------------------------------------------------------


async def test_a_set_is_made_once_with_its_name_as_the_first_label(site: Site, sets: ScaleSets) -> None:
    made, again = await sets.ensure(SPEC), await sets.ensure(SPEC)
    assert made.id == again.id
    assert [label.name for label in made.labels] == ["muster-linux", "Gpu"]


async def test_labels_that_changed_are_changed_in_place(site: Site, sets: ScaleSets) -> None:
    made = await sets.ensure(SPEC)
    other = SetSpec(scope=ACME, name="muster-linux", labels=("arm",))
    changed = await sets.ensure(other, earlier=[frozenset({"muster-linux", "gpu"})])
    assert changed.id == made.id
    assert changed.label_names == {"muster-linux", "arm"}


async def test_the_labels_of_another_program_s_set_are_never_changed(site: Site, sets: ScaleSets) -> None:
    site.world.sets.make("acme", "muster-linux", 1, ("muster-linux", "theirs"))
    with pytest.raises(NameTaken, match="made it with the labels muster-linux, theirs; choose another name"):
        await sets.ensure(SPEC)
    assert site.world.sets.of("acme")[0].labels == ("muster-linux", "theirs")


async def test_a_set_that_lacks_some_of_our_labels_is_taken_over(site: Site, sets: ScaleSets) -> None:
    site.world.sets.make("acme", "muster-linux", 1, ())
    assert (await sets.ensure(SPEC)).label_names == {"muster-linux", "gpu"}


async def test_a_runner_says_whether_it_is_online_or_that_it_is_unknown(site: Site, sets: ScaleSets) -> None:
    made = await sets.ensure(SPEC)
    await sets.just_in_time(ACME, made.id, name="one")
    found = await sets.runner(ACME, "one")
    assert found is not None and found.online is False
    site.world.connect(site.world.of("acme")[0])
    found = await sets.runner(ACME, "one")
    assert found is not None and found.online is True
    site.world.sets.tells_status = False
    found = await sets.runner(ACME, "one")
    assert found is not None and found.online is None


async def test_labels_that_the_server_drops_are_missing_in_what_comes_back(
    site: Site, sets: ScaleSets
) -> None:
    site.world.sets.drops_labels = True
    assert (await sets.ensure(SPEC)).label_names == {"muster-linux"}


async def test_a_set_whose_answer_was_lost_is_found_by_its_name(site: Site, sets: ScaleSets) -> None:
    site.world.fault("POST .*/runnerscalesets", performed=True)
    with pytest.raises(Uncertain, match="no answer"):
        await sets.ensure(SPEC)
    assert (await sets.ensure(SPEC)).id in site.world.sets.known
    assert len(site.world.sets.known) == 1


async def test_a_group_is_found_by_a_name_with_any_characters(site: Site, sets: ScaleSets) -> None:
    site.world.groups["acme"] = {"a & b?=ü": 7}
    made = await sets.ensure(SetSpec(scope=ACME, name="linux", group="a & b?=ü"))
    assert made.runner_group_id == 7


async def test_an_unknown_group_is_refused_by_its_name(site: Site, sets: ScaleSets) -> None:
    with pytest.raises(Refused, match="'gpus' of acme: there is none of that name"):
        await sets.ensure(SetSpec(scope=ACME, name="linux", group="gpus"))


async def test_a_set_of_the_same_name_in_another_group_is_seen(site: Site, sets: ScaleSets) -> None:
    site.world.groups["acme"] = {"other": 7}
    site.world.sets.make("acme", "muster-linux", 7, ("muster-linux",))
    await sets.ensure(SPEC)
    assert [each.runner_group_name for each in await sets.elsewhere(SPEC, 1)] == ["other"]


async def test_a_body_with_a_byte_order_mark_is_read(site: Site, sets: ScaleSets) -> None:
    site.world.sets.marks = True
    assert (await sets.ensure(SPEC)).name == "muster-linux"


# --- sessions ----------------------------------------------------------------------------------------


async def test_a_second_session_is_refused_until_the_first_was_silent_for_its_life(
    site: Site, sets: ScaleSets
) -> None:
    session, _ = await listening(site, sets)
    site.clock.at += site.world.sets.session_life - 1
    with pytest.raises(SessionTaken, match="already has an active session"):
        await sets.open(ACME, session.set_id, owner="one")
    site.clock.at += 1
    await sets.open(ACME, session.set_id, owner="two")
    with pytest.raises(SessionMissing):
        await session.poll(capacity=1)


async def test_a_closed_session_makes_room_at_once(site: Site, sets: ScaleSets) -> None:
    session, _ = await listening(site, sets)
    await session.close()
    await session.close()
    await sets.open(ACME, session.set_id, owner="two")


async def test_a_session_that_github_dropped_is_missing_for_a_poll_and_a_renewal(
    site: Site, sets: ScaleSets
) -> None:
    session, scale_set = await listening(site, sets)
    site.world.sets.evict(scale_set)
    with pytest.raises(SessionMissing):
        await session.poll(capacity=1)
    site.world.sets.expire("queue")
    with pytest.raises(SessionMissing):
        await session.poll(capacity=1)


async def test_a_session_without_the_address_of_its_queue_is_missing(site: Site, sets: ScaleSets) -> None:
    site.world.sets.hides_queue = True
    session, _ = await listening(site, sets)
    with pytest.raises(SessionMissing, match="without the address of its queue"):
        await session.poll(capacity=1)


async def test_a_set_that_vanished_is_missing_for_a_session_and_a_runner(site: Site, sets: ScaleSets) -> None:
    made = await sets.ensure(SPEC)
    site.world.sets.vanish(site.world.sets.known[made.id])
    with pytest.raises(SetMissing):
        await sets.open(ACME, made.id, owner="one")
    with pytest.raises(SetMissing):
        await sets.just_in_time(ACME, made.id, name="r")


@pytest.mark.parametrize("status", [403, 400])
async def test_a_queue_that_refuses_otherwise_is_no_missing_session(
    site: Site, sets: ScaleSets, status: int
) -> None:
    session, _ = await listening(site, sets)
    site.world.fault("GET .*/queue", status)
    with pytest.raises(Refused):
        await session.poll(capacity=1)


@pytest.mark.parametrize(("headers", "pause"), [({"retry-after": "7"}, 7.0), ({}, 60.0)])
async def test_a_limited_rate_says_for_how_long(
    site: Site, sets: ScaleSets, headers: dict[str, str], pause: float
) -> None:
    session, _ = await listening(site, sets)
    site.world.fault("GET .*/queue", 429, headers=headers)
    with pytest.raises(Throttled) as raised:
        await session.poll(capacity=1)
    assert raised.value.retry_after == pause


# --- messages ----------------------------------------------------------------------------------------


async def test_jobs_are_assigned_up_to_the_capacity_of_the_poll(site: Site, sets: ScaleSets) -> None:
    session, _ = await listening(site, sets)
    queued(site, 3)
    assert await session.poll(capacity=0) is None
    message = await received(session, 2)
    assert [entry.message_type for entry in message.entries()] == [ASSIGNED, ASSIGNED]
    assert message.statistics is not None
    assert message.statistics.total_assigned_jobs == 2


async def test_sixty_jobs_come_as_fifty_entries_with_statistics_of_sixty(site: Site, sets: ScaleSets) -> None:
    session, _ = await listening(site, sets)
    queued(site, 60)
    message = await received(session)
    assert message.statistics is not None
    assert (len(message.entries()), message.statistics.total_assigned_jobs) == (50, 60)
    assert len((await received(session)).entries()) == 10


async def test_a_message_comes_again_to_the_next_session_until_it_is_deleted(
    site: Site, sets: ScaleSets
) -> None:
    session, _ = await listening(site, sets)
    queued(site)
    first = await received(session)
    assert await session.poll(capacity=100) is None
    await session.close()
    session = await sets.open(ACME, session.set_id, owner="two")
    assert (await received(session)).message_id == first.message_id
    await session.acknowledge(first.message_id)
    await session.acknowledge(first.message_id)
    await session.close()
    session = await sets.open(ACME, session.set_id, owner="three")
    assert await session.poll(capacity=100) is None
    assert session.current.statistics is not None
    assert session.current.statistics.total_assigned_jobs == 1


async def test_a_new_session_sees_messages_whose_ids_began_again(site: Site, sets: ScaleSets) -> None:
    session, scale_set = await listening(site, sets)
    queued(site)
    await session.acknowledge((await received(session)).message_id)
    site.world.sets.restart_ids(scale_set)
    await session.close()
    queued(site)
    assert (await received(await sets.open(ACME, session.set_id, owner="two"))).message_id == FIRST_MESSAGE


async def test_offered_jobs_are_assigned_to_the_set_that_acquires_them(site: Site, sets: ScaleSets) -> None:
    site.world.sets.offers = True
    session, _ = await listening(site, sets)
    queued(site, 2)
    offers = (await received(session)).entries()
    assert {each.message_type for each in offers} == {AVAILABLE}
    site.world.sets.expire("queue")
    ids = [each.runner_request_id for each in offers]
    assert await session.acquire([*ids, 999]) == ids
    assert {each.message_type for each in (await received(session)).entries()} == {ASSIGNED}


@pytest.mark.parametrize("body", ['[{"messageType": 5}, {"messageType": "New"}]', "[]", ""])
def test_entries_that_cannot_be_read_are_left_out(body: str) -> None:
    message = Message(message_id=1, message_type="RunnerScaleSetJobMessages", body=body)
    assert [each.message_type for each in message.entries()] in ([], ["New"])


async def test_an_empty_answer_to_a_poll_is_no_message(site: Site, sets: ScaleSets) -> None:
    session, _ = await listening(site, sets)
    site.world.fault("GET .*/queue", 200, body="")
    assert await session.poll(capacity=1) is None


@pytest.mark.parametrize(
    ("text", "at"),
    [
        ("2026-01-01T00:00:00.1234567Z", 1767225600.1234567),
        ("2026-01-01T00:00:00Z", 1767225600.0),
        ("0001-01-01T00:00:00Z", None),
        ("", None),
        ("soon", None),
        ("2026-01-01T00:00:00.xZ", None),
    ],
)
def test_times_that_did_not_happen_are_none(text: str, at: float | None) -> None:
    assert time_of(text) == (None if at is None else pytest.approx(at))


# --- runners -----------------------------------------------------------------------------------------


async def test_a_runner_of_a_set_takes_any_job_that_was_assigned_to_the_set(
    site: Site, sets: ScaleSets
) -> None:
    session, _ = await listening(site, sets)
    queued(site, 2)
    await session.acknowledge((await received(session)).message_id)
    assert await sets.just_in_time(ACME, session.set_id, name="runner-1")
    runner = site.world.named("acme", "runner-1")
    assert runner is not None
    job = site.world.take(runner, 0.0)
    assert job is not None
    site.world.finish(runner, job.id, "success", "")
    entries = (await received(session)).entries()
    assert [(each.message_type, each.runner_name) for each in entries] == [
        (STARTED, "runner-1"),
        (COMPLETED, "runner-1"),
    ]
    assert entries[1].result == "succeeded"


async def test_a_name_that_is_taken_is_freed_first_so_that_one_configuration_works(
    site: Site, sets: ScaleSets
) -> None:
    made = await sets.ensure(SPEC)
    first = await sets.just_in_time(ACME, made.id, name="runner-1")
    assert await sets.just_in_time(ACME, made.id, name="runner-1") != first
    assert len(site.world.of("acme")) == 1


async def test_a_busy_runner_is_not_replaced(site: Site, sets: ScaleSets) -> None:
    made = await sets.ensure(SPEC)
    await sets.just_in_time(ACME, made.id, name="runner-1")
    runner = site.world.named("acme", "runner-1")
    assert runner is not None
    runner.busy = True
    site.world.connect(runner)
    with pytest.raises(RunnerBusy):
        await sets.just_in_time(ACME, made.id, name="runner-1")


async def test_a_runner_of_another_set_is_never_removed_for_its_name(site: Site, sets: ScaleSets) -> None:
    made, other = await sets.ensure(SPEC), await sets.ensure(SetSpec(scope=ACME, name="other"))
    await sets.just_in_time(ACME, other.id, name="runner-1")
    with pytest.raises(Refused, match="another scale set has one of that name"):
        await sets.just_in_time(ACME, made.id, name="runner-1")


async def test_a_missing_runner_counts_as_removed(sets: ScaleSets) -> None:
    await sets.remove_runner(ACME, 404)


async def test_a_set_of_an_enterprise_serves_all_its_organisations(site: Site, sets: ScaleSets) -> None:
    big = Scope.named("enterprises/big-corp")
    site.world.enterprises["big-corp"] = {"acme"}
    found = await sets.ensure(SetSpec(scope=big, name="muster-linux"))
    session = await sets.open(big, found.id, owner="here")
    run = site.world.begin("acme/shop")
    site.world.queue(run, "test", ["muster-linux"])
    site.world.queue(site.world.begin("stranger/shop"), "test", ["muster-linux"])
    message = await session.poll(capacity=5)
    assert message is not None
    assert [entry.owner_name for entry in message.entries()] == ["acme"]
    assert await sets.just_in_time(big, found.id, name="runner-1")
