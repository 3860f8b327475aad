"""Terminals that a person signs in with a code: who may confirm, what a code is worth, and when it ends."""

import asyncio
from typing import Any

import httpx

from muster.api.device_logins import LASTS, WAITING_MOST, typed_code, user_code
from muster.domain.access import Role
from tests.api.signing import CONFIG, ROOT, SignIn


async def _begun(sign_in: SignIn, machine: str = "ada-laptop") -> dict[str, Any]:
    answer = await sign_in.site.http("").post(f"{ROOT}/device", json={"machine": machine})
    assert answer.status_code == 201, answer.text
    return dict(answer.json())


async def _polled(sign_in: SignIn, login: dict[str, Any]) -> httpx.Response:
    body = {"device_code": login["device_code"]}
    return await sign_in.site.http("").post(f"{ROOT}/device/token", json=body)


async def test_a_terminal_is_signed_in_by_a_person_who_confirms_its_code(sign_in: SignIn) -> None:
    login = await _begun(sign_in)
    code = login["user_code"]
    assert login["verification_uri_complete"] == f"{sign_in.site.url}/device?code={code}"
    waits = await _polled(sign_in, login)
    assert (waits.status_code, waits.json()["code"]) == (400, "authorization_pending")
    assert (await sign_in.site.http(login["device_code"]).get(f"{ROOT}/whoami")).status_code == 401

    browser = await sign_in.signed_in()
    shown = (await browser.get(f"{ROOT}/device/{code}")).json()
    assert (shown["machine"], shown["settled"]) == ("ada-laptop", None)
    typed = code.replace("-", " ").lower()
    assert (await browser.post(f"{ROOT}/device/{typed}/confirm")).json()["settled"] == "confirmed"
    given = (await _polled(sign_in, login)).json()
    assert (given["name"], given["role"]) == ("ada@example.com on ada-laptop", "operator")
    assert (await _polled(sign_in, login)).json() == given, "a lost answer costs nothing"
    http = sign_in.site.http(given["access_token"])
    who = (await http.get(f"{ROOT}/whoami")).json()
    assert (who["kind"], who["name"]) == ("login", "ada@example.com on ada-laptop")
    tokens = (await sign_in.site.http().get(f"{ROOT}/tokens")).json()["items"]
    assert {each["kind"] for each in tokens} == {"token", "session", "login"}
    acts = (await sign_in.site.http().get(f"{ROOT}/audit")).json()["items"]
    assert [(each["name"], each["changes"]["kind"]) for each in acts] == [
        ("signed_in", "session"),
        ("signed_in", "login"),
    ]
    assert acts[1]["actor"].startswith("ada@example.com (tok-")


async def test_a_login_ends_by_sign_out_by_revocation_and_by_its_time(sign_in: SignIn) -> None:
    browser = await sign_in.signed_in()
    secrets = []
    for _ in range(3):
        login = await _begun(sign_in)
        await browser.post(f"{ROOT}/device/{login['user_code']}/confirm")
        secrets.append(login["device_code"])
    out, revoked, old = [sign_in.site.http(secret) for secret in secrets]
    assert (await out.post(f"{ROOT}/sign-out")).json() == {"ended": True}
    name = (await revoked.get(f"{ROOT}/whoami")).json()["token_id"]
    await sign_in.site.http().post(f"{ROOT}/tokens/{name}/revoke")
    for http in (out, revoked):
        refused = await http.get(f"{ROOT}/whoami")
        assert refused.status_code == 401 and "run `muster login` again" in refused.json()["detail"]
    sign_in.clock.ahead = CONFIG.lifetimes.login - 60
    assert (await old.get(f"{ROOT}/whoami")).status_code == 200
    sign_in.clock.ahead = CONFIG.lifetimes.login + 1
    assert "this login has expired" in (await old.get(f"{ROOT}/whoami")).json()["detail"]


async def test_a_denied_terminal_is_told_so_and_gets_nothing(sign_in: SignIn) -> None:
    login, browser = await _begun(sign_in), await sign_in.signed_in()
    assert (await browser.post(f"{ROOT}/device/{login['user_code']}/deny")).json()["settled"] == "denied"
    told = await _polled(sign_in, login)
    assert (told.status_code, told.json()["code"]) == (400, "access_denied")
    again = await browser.post(f"{ROOT}/device/{login['user_code']}/confirm")
    assert again.status_code == 409
    assert (await sign_in.site.http(login["device_code"]).get(f"{ROOT}/whoami")).status_code == 401


async def test_a_code_expires(sign_in: SignIn) -> None:
    login, browser = await _begun(sign_in), await sign_in.signed_in()
    sign_in.clock.ahead = LASTS
    assert (await _polled(sign_in, login)).json()["code"] == "expired_token"
    assert (await browser.get(f"{ROOT}/device/{login['user_code']}")).status_code == 404
    assert (await browser.post(f"{ROOT}/device/{login['user_code']}/confirm")).status_code == 404
    assert (await _polled(sign_in, {"device_code": "muster_guessed"})).json()["code"] == "expired_token"


async def test_a_token_confirms_no_terminal(sign_in: SignIn) -> None:
    """A token that could make tokens would outlive its own end."""
    login = await _begun(sign_in)
    for role in (Role.ADMIN, Role.OPERATOR, Role.VIEWER):
        http = sign_in.site.http(sign_in.site.secrets[role])
        for method, path in (("GET", ""), ("POST", "/confirm"), ("POST", "/deny")):
            refused = await http.request(method, f"{ROOT}/device/{login['user_code']}{path}")
            assert refused.status_code == 403, refused.text
    assert (await _polled(sign_in, login)).json()["code"] == "authorization_pending"


async def test_another_site_cannot_make_a_person_confirm(sign_in: SignIn) -> None:
    login, browser = await _begun(sign_in), await sign_in.signed_in()
    path = f"{ROOT}/device/{login['user_code']}/confirm"
    for marks in ({"Sec-Fetch-Site": "cross-site"}, {"Origin": "https://evil.example.com"}):
        assert (await browser.post(path, headers=marks)).status_code == 403
    assert (await _polled(sign_in, login)).json()["code"] == "authorization_pending"


async def test_confirmed_twice_at_once_it_is_one_login(sign_in: SignIn) -> None:
    login, browser = await _begun(sign_in), await sign_in.signed_in()
    path = f"{ROOT}/device/{login['user_code']}/confirm"
    ends = await asyncio.gather(*(browser.post(path) for _ in range(5)))
    assert sorted(each.status_code for each in ends) == [200, 409, 409, 409, 409]
    tokens = (await sign_in.site.http().get(f"{ROOT}/tokens")).json()["items"]
    assert [each["kind"] for each in tokens].count("login") == 1


async def test_a_flood_from_one_address_stops_no_login_from_another(sign_in: SignIn) -> None:
    """Neither one that waits already, nor one that begins in the flood."""
    flood = sign_in.site.http("")
    browser, before = await sign_in.signed_in(), await _begun_from("127.0.0.2", sign_in)
    flooded = [
        (await flood.post(f"{ROOT}/device", json={"machine": "m"})).json() for _ in range(WAITING_MOST)
    ]
    within = await _begun_from("127.0.0.3", sign_in)
    for _ in range(5):
        assert (await flood.post(f"{ROOT}/device", json={"machine": "m"})).status_code == 201
    for login in (before, within):
        confirmed = await browser.post(f"{ROOT}/device/{login['user_code']}/confirm")
        assert confirmed.status_code == 200, confirmed.text
        assert (await _polled(sign_in, login)).status_code == 200
    told = (await _polled(sign_in, flooded[0])).json()
    assert told["code"] == "expired_token" and "too many terminals asked" in told["detail"]
    assert (await _polled(sign_in, flooded[-1])).json()["code"] == "authorization_pending"


async def _begun_from(address: str, sign_in: SignIn) -> dict[str, Any]:
    """Begin a login from an address of this machine."""
    transport = httpx.AsyncHTTPTransport(local_address=address)
    async with httpx.AsyncClient(base_url=sign_in.site.url, transport=transport) as http:
        begun = await http.post(f"{ROOT}/device", json={"machine": "laptop"})
    assert begun.status_code == 201, begun.text
    return dict(begun.json())


async def test_a_machine_s_name_is_plain_text(sign_in: SignIn) -> None:
    for machine in ("", "x" * 64, "a\nb", "\x1b[31m"):
        refused = await sign_in.site.http("").post(f"{ROOT}/device", json={"machine": machine})
        assert refused.status_code == 422, refused.text


def test_codes_are_letters_that_spell_no_word_and_are_read_in_any_form() -> None:
    codes = {user_code(f"secret-{number}") for number in range(1000)}
    assert len(codes) == 1000
    assert all(typed_code(code.lower().replace("-", "")) == code for code in codes)
    assert not set("".join(codes)) & set("AEIOUY0123456789")
