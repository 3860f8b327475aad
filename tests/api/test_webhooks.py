"""Messages of webhooks that were not delivered, over HTTP: listed, counted, sent again, forgotten."""

import pytest

from muster.client import calls
from muster.domain import undelivered
from muster.domain.access import Role
from muster.domain.errors import Forbidden, InvalidRequest, NotFound
from muster.wire.base import PAGE_MOST
from tests.api.site import Site
from tests.contracts.message_contract import message


async def keep(site: Site) -> None:
    """One message that waits and one that was given up."""
    now = site.ports.clock.now()
    waits = undelivered.failed(message(1, now=now - 90.0), "it answered 500", now=now, again_at=now + 600)
    over = undelivered.failed(message(2, now=now - 90.0), "it answered 404", now=now, again_at=None)
    for each in (waits, over, message(3, webhook="chat", now=now)):
        await site.store.messages.keep_undelivered(each)


async def test_what_was_not_delivered_is_listed_with_its_event_and_why(site: Site) -> None:
    await keep(site)
    viewer = site.client(Role.VIEWER)
    assert len((await viewer.send(calls.undelivered())).items) == 3
    waits, over = (await viewer.send(calls.undelivered(webhook="ops"))).items
    assert (waits.id, waits.state, waits.type, waits.tries) == ("ops.ev-1", "waiting", "node.booted", 1)
    assert (waits.problem, waits.event.entity_id) == ("it answered 500", "node-1")
    assert (over.state, over.due_at) == ("given_up", None)
    assert (waits.given_up_at, over.given_up_at) == (None, over.tried_at)


@pytest.mark.parametrize("count", [PAGE_MOST - 1, PAGE_MOST, PAGE_MOST + 1])
async def test_a_list_counts_and_acts_reach_past_a_page(site: Site, count: int) -> None:
    now = site.ports.clock.now()
    for number in range(count):
        over = undelivered.failed(message(number), "it answered 404", now=now, again_at=None)
        await site.store.messages.keep_undelivered(over)
    operator = site.client(Role.OPERATOR)
    page = await operator.send(calls.undelivered(webhook="ops", limit=PAGE_MOST))
    assert (len(page.items), page.next is None) == (min(count, PAGE_MOST), count <= PAGE_MOST)
    (backlog,) = (await operator.send(calls.overview())).undelivered
    assert backlog.given_up == count
    last = max(f"ops.ev-{number}" for number in range(count))
    assert [each.id for each in await operator.send(calls.resend("ops", [last]))] == [last]
    assert len(await operator.send(calls.forget("ops"))) == count - 1
    assert len(await operator.send(calls.resend("ops"))) == 1


async def test_the_overview_and_the_metrics_count_it(site: Site) -> None:
    await keep(site)
    seen = await site.client(Role.VIEWER).send(calls.overview())
    chat, ops = seen.undelivered
    assert (chat.webhook, chat.waiting, ops.waiting, ops.given_up) == ("chat", 1, 1, 1)
    assert ops.problem == "it answered 500"
    assert {"webhook_waits.ops", "webhook_dropped.ops"} <= {each.id for each in seen.findings}
    metrics = await site.client(Role.VIEWER).send(calls.metrics())
    assert 'muster_webhook_undelivered{webhook="ops",state="given_up"} 1' in metrics


async def test_an_operator_sends_again_or_forgets_and_a_viewer_does_neither(site: Site) -> None:
    await keep(site)
    operator, viewer = site.client(Role.OPERATOR), site.client(Role.VIEWER)
    for refused in (calls.resend("ops"), calls.forget("ops")):
        with pytest.raises(Forbidden):
            await viewer.send(refused)
    for unknown in (calls.resend("nope"), calls.forget("nope")):
        with pytest.raises(NotFound):
            await operator.send(unknown)
    with pytest.raises(NotFound):
        await operator.send(calls.forget("ops", ["ops.ev-2", "ops.ev-1"]))
    (sent,) = await operator.send(calls.resend("ops", ["ops.ev-2"]))
    assert (sent.state, sent.tries) == ("waiting", 0)
    assert len(await operator.send(calls.resend("ops"))) == 2
    with pytest.raises(InvalidRequest):
        await operator.send(calls.resend("ops", ["ops.ev-1"] * 1001))


async def test_a_repeat_after_a_lost_answer_does_no_harm(site: Site) -> None:
    await keep(site)
    operator = site.client(Role.OPERATOR)
    assert len(await operator.send(calls.forget("ops", ["ops.ev-2"]))) == 1
    assert await operator.send(calls.forget("ops", ["ops.ev-2"])) == ()
    assert await operator.send(calls.forget("ops")) == ()
    (again,) = await operator.send(calls.resend("ops", ["ops.ev-1", "ops.ev-2"]))
    assert again.id == "ops.ev-1"
    told = [each.name for each in (await operator.send(calls.last_events(100))).items]
    assert (told.count("webhook_forgotten"), told.count("webhook_resent")) == (1, 1)


async def test_messages_of_a_webhook_that_is_no_longer_in_the_settings_can_only_be_forgotten(
    site: Site,
) -> None:
    now = site.ports.clock.now()
    over = undelivered.failed(message(1, webhook="gone"), "it answered 404", now=now, again_at=None)
    for each in (over, message(2, webhook="gone", now=now)):
        await site.store.messages.keep_undelivered(each)
    operator = site.client(Role.OPERATOR)
    seen = await operator.send(calls.overview())
    (backlog,) = seen.undelivered
    assert (backlog.webhook, backlog.waiting, backlog.given_up, backlog.removed) == ("gone", 1, 1, True)
    assert "webhook_removed.gone" in {each.id for each in seen.findings}
    with pytest.raises(InvalidRequest, match="no longer in the settings"):
        await operator.send(calls.resend("gone"))
    forgotten = await operator.send(calls.forget("gone"))
    assert [each.id for each in forgotten] == ["gone.ev-1", "gone.ev-2"]
    assert (await operator.send(calls.undelivered(webhook="gone"))).items == ()


async def test_an_empty_choice_is_no_choice_of_all(site: Site) -> None:
    await keep(site)
    http = site.http(site.secrets[Role.OPERATOR])
    bad: list[dict[str, object]] = [{"ids": []}, {"ids": [""], "webhook": ""}, {"webhook": "x" * 3000}]
    for verb in ("resend", "forget"):
        for wrong in bad:
            refused = await http.post(f"/api/v1/webhooks/{verb}", json={"webhook": "ops", **wrong})
            assert refused.status_code == 422, refused.text
    assert len((await site.client(Role.VIEWER).send(calls.undelivered())).items) == 3
    for wrong_name in ("", "x" * 3000):
        asked = await http.get("/api/v1/webhooks/undelivered", params={"webhook": wrong_name})
        assert asked.status_code == 422
