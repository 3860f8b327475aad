"""Limits of GitHub's: one budget for all uses of a credential, with a reserve for what can't wait."""

import asyncio

import httpx
import pytest

from muster.domain.errors import Throttled
from muster.integrations.github import api as speaking
from muster.integrations.github.api import AT_ONCE, RESERVE, RateBudget
from muster.integrations.github.credentials import AppCredentials, PersonalToken
from muster.integrations.github.registry import GitHubRegistry
from muster.integrations.github.runners import Scope
from tests.integrations.github.conftest import API, ManualClock, Site

SHOP = Scope.named("acme/shop")
ELSEWHERE = Scope.named("other/tool")
LIMIT = 100


def told(*, left: int, resets_in: float, clock: ManualClock) -> dict[str, str]:
    said = {"limit": LIMIT, "remaining": left, "reset": int(clock.at + resets_in)}
    return {f"x-ratelimit-{name}": str(value) for name, value in said.items()}


def test_what_can_wait_leaves_the_reserve_to_what_can_not() -> None:
    clock = ManualClock()
    budget = RateBudget(clock)
    reserve = int(LIMIT * RESERVE)
    budget.heard(told(left=reserve + 1, resets_in=600, clock=clock))
    budget.check("look", patient=True)
    budget.heard(told(left=reserve, resets_in=600, clock=clock))
    with pytest.raises(Throttled, match="20 of 100 requests are left for 600 s") as raised:
        budget.check("look", patient=True)
    assert raised.value.retry_after == 600.0
    budget.check("register", patient=False)
    budget.heard(told(left=0, resets_in=600, clock=clock))
    with pytest.raises(Throttled, match="0 of 100"):
        budget.check("register", patient=False)
    clock.at += 600
    budget.check("look", patient=True)


def test_an_answer_that_tells_nothing_changes_nothing() -> None:
    clock = ManualClock()
    budget = RateBudget(clock)
    budget.heard({})
    budget.heard({"x-ratelimit-limit": "100", "x-ratelimit-remaining": "none", "x-ratelimit-reset": "9"})
    budget.check("look", patient=True)


async def test_runs_are_not_watched_with_what_registrations_need(site: Site) -> None:
    site.world.limit, site.world.resets_at = LIMIT, site.clock.at + 3600
    site.world.begin("acme/shop", run_id=7)
    registry = site.registry()
    for number in range(int(LIMIT * (1 - RESERVE))):
        await registry.run("acme/shop", 1000 + number)
    with pytest.raises(Throttled):
        await registry.run("acme/shop", 7)
    assert site.world.spent["a-personal-token"] == LIMIT * (1 - RESERVE)
    for number in range(int(LIMIT * RESERVE)):
        await registry.just_in_time(SHOP, name=f"r-{number}", labels=["7-1"], group="")
    asked = len(site.world.calls)
    with pytest.raises(Throttled):
        await registry.just_in_time(SHOP, name="r-late", labels=["7-1"], group="")
    assert len(site.world.calls) == asked, "nothing is asked in vain"
    site.clock.at += 3600
    site.world.spent.clear()
    await registry.just_in_time(SHOP, name="r-late", labels=["7-1"], group="")


async def test_a_crowd_of_requests_is_sent_a_few_at_a_time(site: Site) -> None:
    """And those that wait their turn hear of a pause that one of the first was told."""
    under_way = [0]

    async def answer(_request: httpx.Request) -> httpx.Response:
        under_way.append(under_way[-1] + 1)
        await asyncio.sleep(0)
        under_way.append(under_way[-1] - 1)
        return httpx.Response(429, json={}, headers={"retry-after": "9"})

    async with httpx.AsyncClient(transport=httpx.MockTransport(answer)) as http:
        registry = GitHubRegistry(
            speaking.GitHubApi(http, PersonalToken("t"), site.clock, api_url=API), site.clock
        )
        many = (registry.registration_token(Scope.named(f"acme/r{number}")) for number in range(100))
        refused = await asyncio.gather(*many, return_exceptions=True)
    assert all(isinstance(each, Throttled) for each in refused)
    assert max(under_way) == AT_ONCE
    assert len(under_way) == 1 + 2 * AT_ONCE, "no other caller asked"


async def test_a_personal_token_pauses_everywhere_it_is_used(site: Site) -> None:
    registry = site.registry()
    site.world.fault("acme/shop", 403, headers={"retry-after": "17"})
    with pytest.raises(Throttled):
        await registry.runners(SHOP)
    asked = len(site.world.calls)
    with pytest.raises(Throttled):
        await registry.runners(ELSEWHERE)
    assert len(site.world.calls) == asked


async def test_an_app_pauses_for_the_account_that_is_limited_alone(
    site: Site, private_key: str, public_key: str
) -> None:
    site.world.apps["77"] = public_key
    site.world.installations.update({1: ("77", "acme"), 2: ("77", "other")})
    app = AppCredentials(site.http(), site.clock, api_url=API, app_id="77", private_key=private_key)
    registry = site.registry(app)
    site.world.fault("acme/shop/actions", 403, headers={"retry-after": "17"})
    with pytest.raises(Throttled):
        await registry.runners(SHOP)
    with pytest.raises(Throttled):
        await registry.runners(Scope.named("acme"))
    await registry.runners(ELSEWHERE)


async def test_a_pause_while_a_token_is_borrowed_is_a_pause_too(
    site: Site, private_key: str, public_key: str
) -> None:
    site.world.apps["77"] = public_key
    site.world.installations[1] = ("77", "acme")
    app = AppCredentials(site.http(), site.clock, api_url=API, app_id="77", private_key=private_key)
    registry = site.registry(app)
    site.world.fault("access_tokens", 429, headers={"retry-after": "17"})
    with pytest.raises(Throttled):
        await registry.runners(SHOP)
    asked = len(site.world.calls)
    with pytest.raises(Throttled):
        await registry.runners(SHOP)
    assert len(site.world.calls) == asked


async def test_what_did_not_change_costs_nothing_also_where_there_is_much_of_it(site: Site) -> None:
    api = site.api()
    registry = GitHubRegistry(api, site.clock)
    for _ in range(2):
        for number in range(600):
            await registry.active(f"acme/r{number}")
    assert (api.requests, api.unchanged) == (2400, 1200)


async def test_the_answers_used_longest_ago_are_the_first_to_be_forgotten(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(speaking, "KEPT_MOST", 2)
    api = site.api()
    registry = GitHubRegistry(api, site.clock)
    for scope in (SHOP, ELSEWHERE, SHOP, Scope.named("acme/third"), SHOP):
        await registry.runners(scope)
    assert api.unchanged == 2, "the one that is asked for most"
    await registry.runners(ELSEWHERE)
    assert api.unchanged == 2
