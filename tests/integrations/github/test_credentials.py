from typing import Any

import pytest

from muster.domain.errors import InvalidRequest, Refused, Uncertain
from muster.integrations.github.credentials import EARLY, AppCredentials
from muster.integrations.github.runners import Scope
from tests.integrations.github.conftest import API, Site

SHOP = Scope.named("acme/shop")


@pytest.fixture
def app(site: Site, private_key: str, public_key: str) -> AppCredentials:
    site.world.tokens.clear()
    site.world.apps["4711"] = public_key
    site.world.installations[99] = ("4711", "acme")
    return AppCredentials(site.http(), site.clock, api_url=API, app_id="4711", private_key=private_key)


async def test_an_app_gets_a_token_where_it_is_installed_and_keeps_it(
    site: Site, app: AppCredentials
) -> None:
    registry = site.registry(app)
    for _ in range(3):
        await registry.registration_token(SHOP)
    assert site.world.asked("access_tokens") == 1
    assert site.world.asked("/installation") == 2, "found once; the other is the token's own path"


async def test_a_token_is_renewed_before_it_ends(site: Site, app: AppCredentials) -> None:
    registry = site.registry(app)
    await registry.registration_token(SHOP)
    site.clock.at += 3600 - EARLY - 1
    await registry.registration_token(SHOP)
    assert site.world.asked("access_tokens") == 1
    site.clock.at += 1
    await registry.registration_token(SHOP)
    assert site.world.asked("access_tokens") == 2


async def test_a_token_that_is_not_accepted_any_more_is_replaced_once(
    site: Site, app: AppCredentials
) -> None:
    registry = site.registry(app)
    await registry.registration_token(SHOP)
    site.world.lent.clear()
    await registry.registration_token(SHOP)
    assert site.world.asked("access_tokens") == 2


async def test_an_app_that_was_installed_anew_is_found_again(site: Site, app: AppCredentials) -> None:
    registry = site.registry(app)
    await registry.registration_token(SHOP)
    site.world.installations[100] = site.world.installations.pop(99)
    site.clock.at += 3600
    await registry.registration_token(SHOP)
    assert site.world.asked("installations/100/access_tokens") == 1


async def test_an_app_that_is_not_installed_there_is_refused(site: Site, app: AppCredentials) -> None:
    with pytest.raises(Refused, match="find where the GitHub App 4711 is installed for other/shop"):
        await site.registry(app).runners(Scope.named("other/shop"))


async def test_an_app_is_told_that_enterprises_want_a_classic_token(site: Site, app: AppCredentials) -> None:
    with pytest.raises(Refused, match="classic token there, with manage_runners:enterprise"):
        await site.registry(app).runners(Scope.named("enterprises/big-corp"))
    assert site.world.calls == []


async def test_an_app_with_another_s_key_is_refused(site: Site, app: AppCredentials) -> None:
    site.world.apps.clear()
    with pytest.raises(Refused, match="401"):
        await site.registry(app).runners(SHOP)


@pytest.mark.parametrize(
    ("path", "status", "answer"),
    [
        ("/installation$", 200, {}),
        ("/installation$", 200, {"id": "x"}),
        ("/installation$", 200, {"id": None}),
        ("access_tokens", 201, {"token": "t"}),
        ("access_tokens", 201, {"token": "t", "expires_at": 7}),
        ("access_tokens", 201, {"token": "t", "expires_at": "soon"}),
        ("access_tokens", 201, {"token": None, "expires_at": "2030-01-01T00:00:00Z"}),
        ("access_tokens", 201, {"token": "", "expires_at": "2030-01-01T00:00:00Z"}),
    ],
)
async def test_an_answer_that_cant_be_read_is_no_refusal_and_no_stack_trace(
    site: Site, app: AppCredentials, path: str, status: int, answer: Any
) -> None:
    site.world.fault(path, status, body=answer)
    with pytest.raises(Uncertain, match="GitHub's answer can't be read"):
        await site.registry(app).runners(SHOP)
    await site.registry(app).runners(SHOP)


@pytest.mark.parametrize("key", ["", "no key", "-----BEGIN RSA PRIVATE KEY-----\nAAAA\n-----END-----"])
def test_a_key_that_is_none_is_refused_without_showing_it(site: Site, key: str) -> None:
    with pytest.raises(InvalidRequest, match="private key of a GitHub App") as refused:
        AppCredentials(site.http(), site.clock, api_url=API, app_id="1", private_key=key)
    assert "AAAA" not in str(refused.value)
