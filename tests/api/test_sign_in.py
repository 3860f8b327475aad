"""Signing in by an identity provider: sessions, cookies, answers that must not count, and their end."""

import asyncio
import base64
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest
from joserfc.jwk import ECKey, OctKey
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from fakes.oidc.issuer import ISSUER
from muster.api.access import LOOK_AGAIN, NOTED_EVERY
from muster.api.sign_in import REFUSALS_MOST, page_path
from muster.client import calls
from muster.domain.access import ApiToken, Role, TokenKind, hashed
from tests.api.signing import CONFIG, ROOT, SignIn, signing
from tests.api.site import opened


async def test_a_person_signs_in_and_is_named_in_what_they_do(sign_in: SignIn) -> None:
    await sign_in.site.template()
    browser = await sign_in.signed_in()
    who = (await browser.get(f"{ROOT}/whoami")).json()
    assert (who["name"], who["role"], who["kind"]) == ("ada@example.com", "operator", "session")
    assert (await browser.post(f"{ROOT}/templates/ci/pause")).status_code == 200
    told = (await sign_in.site.http().get(f"{ROOT}/audit")).json()["items"]
    acts = [(each["name"], each["actor"].partition(" (")[0]) for each in told]
    assert acts == [("signed_in", "ada@example.com"), ("paused", "ada@example.com")]
    tokens = (await sign_in.site.http().get(f"{ROOT}/tokens")).json()["items"]
    assert [(each["name"], each["kind"]) for each in tokens][-1] == ("ada@example.com", "session")


async def test_what_goes_to_the_provider_is_a_code_request_with_pkce_and_no_secret(sign_in: SignIn) -> None:
    sent = await sign_in.browser().get(f"{ROOT}/sign-in/start")
    asked = {name: each[0] for name, each in parse_qs(urlsplit(sent.headers["location"]).query).items()}
    assert asked["response_type"] == "code" and asked["code_challenge_method"] == "S256"
    assert asked["redirect_uri"] == f"{sign_in.site.url}{ROOT}/sign-in/callback"
    assert len({asked["state"], asked["nonce"], asked["code_challenge"]}) == 3
    secret = sent.headers["set-cookie"].partition("=")[2].partition(".")[0]
    assert secret not in sent.headers["location"]
    again = await sign_in.browser().get(f"{ROOT}/sign-in/start")
    assert parse_qs(urlsplit(again.headers["location"]).query)["state"][0] != asked["state"]


async def test_the_cookies_are_for_this_server_and_no_script(sign_in: SignIn) -> None:
    browser = sign_in.browser()
    sent = await browser.get(f"{ROOT}/sign-in/start")
    done = await sign_in.answered(browser, sign_in.issuer.authorise(sent.headers["location"]))
    for line in (sent.headers["set-cookie"], *done.headers.get_list("set-cookie")):
        assert all(word in line for word in ("HttpOnly", "SameSite=lax", "Path=/")) and "Domain" not in line


async def test_over_https_the_cookies_are_secure_and_bound_to_the_host(tmp_path: Path) -> None:
    home = "https://muster.example.com"
    async with signing(tmp_path, home=home) as server:
        site = server.site
        sent = await site.http("").get(f"{ROOT}/sign-in/start", headers={"Host": "muster.example.com"})
        assert "redirect_uri=https%3A%2F%2Fmuster.example.com%2Fapi" in sent.headers["location"]
        cookie = sent.headers["set-cookie"]
        assert cookie.startswith("__Host-muster-sign-in=") and "Secure" in cookie
        elsewhere = await site.http("").get(f"{ROOT}/sign-in/start", params={"to": "/nodes"})
        assert elsewhere.headers["location"].startswith(f"{home}{ROOT}/sign-in/start?to=%2Fnodes&here=true")


# --- answers that must not count ------------------------------------------------------------------


async def _refused(sign_in: SignIn, answer: dict[str, str] | None = None) -> str:
    """Sign in, with this over the right answer. Return why it failed. No session exists after it."""
    browser = sign_in.browser()
    right = await sign_in.begun(browser)
    done = await sign_in.answered(browser, {**right, **(answer or {})})
    assert done.status_code == 303 and urlsplit(done.headers["location"]).netloc == ""
    assert (await browser.get(f"{ROOT}/whoami")).status_code == 401
    assert "session" not in (await sign_in.site.http().get(f"{ROOT}/tokens")).text
    return await sign_in.notice(browser)


UNPROVEN: list[tuple[dict[str, str], str]] = [
    ({"state": "forged"}, "the answer belongs to another sign-in"),
    ({"state": ""}, "the answer belongs to another sign-in"),
    ({"iss": "https://evil.example.com"}, "the answer is of another identity provider"),
    ({"code": "guessed"}, "refused the code (invalid_grant)"),
    ({"code": ""}, "the answer has no code"),
    ({"error": "access_denied", "error_description": "no\nthanks"}, "Login says access_denied no thanks"),
]


async def test_an_answer_that_proves_nothing_begins_no_session(sign_in: SignIn) -> None:
    for answer, why in UNPROVEN:
        assert why in await _refused(sign_in, answer)


WRONG_CLAIMS: list[tuple[dict[str, Any], str]] = [
    ({"nonce": "another"}, "the ID token is not valid"),
    ({"nonce": None}, "the ID token is not valid"),
    ({"aud": "another-client"}, "the ID token is not valid"),
    ({"aud": ["muster", "another-client"]}, "issued to another client"),
    ({"aud": ["muster", "another-client"], "azp": "another-client"}, "issued to another client"),
    ({"iss": "https://evil.example.com"}, "the ID token is not valid"),
    ({"exp": 1_000}, "the ID token has expired"),
    ({"exp": None}, "the ID token is not valid"),
    ({"iat": 9_999_999_999, "exp": 9_999_999_999}, "the ID token is not valid"),
    ({"sub": None}, "the ID token is not valid"),
]


async def test_an_id_token_for_anything_else_begins_no_session(sign_in: SignIn) -> None:
    for claims, why in WRONG_CLAIMS:
        sign_in.issuer.claims = claims
        assert why in await _refused(sign_in), claims


async def test_an_unsigned_id_token_begins_no_session(sign_in: SignIn) -> None:
    sign_in.issuer.unsigned = True
    assert "signed in a way that Muster does not accept" in await _refused(sign_in)


async def test_an_id_token_of_another_key_begins_no_session(sign_in: SignIn) -> None:
    sign_in.issuer.forger = ECKey.generate_key("P-256")
    assert f"signature is not that of {ISSUER}" in await _refused(sign_in)


async def test_an_id_token_that_is_signed_with_a_secret_begins_no_session(sign_in: SignIn) -> None:
    """So a public key that was taken for a secret opens nothing either."""
    sign_in.issuer.forger, sign_in.issuer.algorithm = OctKey.generate_key(256), "HS256"
    assert "signed in a way that Muster does not accept" in await _refused(sign_in)


async def test_no_id_token_and_an_unreadable_one_begin_no_session(sign_in: SignIn) -> None:
    for body in ({}, {"id_token": None}, {"id_token": "a.b.c"}, {"id_token": "x" * 70_000}):
        sign_in.issuer.exchange = httpx.Response(200, json=body)
        assert "cannot sign in" in await _refused(sign_in)


async def test_an_answer_counts_once_and_in_the_browser_that_asked(sign_in: SignIn) -> None:
    browser, other = sign_in.browser(), sign_in.browser()
    answer = await sign_in.begun(browser)
    stolen = await sign_in.answered(other, answer)
    assert "this browser has not begun it" in await sign_in.notice(other), stolen.text
    kept = dict(browser.cookies)
    assert (await sign_in.answered(browser, answer)).headers["location"] == "/nodes?state=idle"
    replaying = sign_in.browser()
    replaying.cookies.update({name: value for name, value in kept.items() if "sign-in" in name})
    await sign_in.answered(replaying, answer)
    assert "refused the code (invalid_grant)" in await sign_in.notice(replaying)


async def test_a_browser_that_is_made_to_sign_in_as_another_person_does_not(sign_in: SignIn) -> None:
    """Login CSRF: the answer of an attacker's own sign-in, in the browser of a victim who began one too."""
    victim, attacker = sign_in.browser(), sign_in.browser()
    await sign_in.begun(victim)
    answer = await sign_in.begun(attacker)
    await sign_in.answered(victim, answer)
    assert "belongs to another sign-in" in await sign_in.notice(victim)


# --- keys, the provider's absence, rules ----------------------------------------------------------


async def test_a_new_key_of_the_provider_is_taken_up_at_once(sign_in: SignIn) -> None:
    await sign_in.signed_in()
    sign_in.issuer.rotate()
    await sign_in.signed_in()
    old = sign_in.issuer.keys[0]
    sign_in.issuer.rotate()
    sign_in.issuer.forger = old
    assert "signature is not that of" in await _refused_beside_others(sign_in), "the old one is gone"


async def _refused_beside_others(sign_in: SignIn) -> str:
    browser = sign_in.browser()
    await sign_in.answered(browser, await sign_in.begun(browser))
    return await sign_in.notice(browser)


async def test_while_the_provider_is_down_sessions_and_tokens_work_and_sign_in_says_so(
    sign_in: SignIn,
) -> None:
    browser = await sign_in.signed_in()
    sign_in.issuer.down = True
    assert (await browser.get(f"{ROOT}/whoami")).status_code == 200
    assert (await sign_in.site.http().get(f"{ROOT}/whoami")).status_code == 200
    other = sign_in.browser()
    sent = await other.get(f"{ROOT}/sign-in/start")
    assert sent.status_code == 303, "its description is remembered"
    await sign_in.answered(other, sign_in.issuer.authorise(sent.headers["location"]))
    assert f"the identity provider {ISSUER} is not available" in await sign_in.notice(other)


async def test_a_provider_that_was_never_reached_is_told_on_the_page(tmp_path: Path) -> None:
    async with signing(tmp_path) as server:
        issuer, browser = server.issuer, server.browser()
        issuer.down = True
        sent = await browser.get(f"{ROOT}/sign-in/start", params={"to": "/nodes"})
        assert sent.headers["location"] == "/nodes"
        assert "is not available (Connection refused); try again, or use a token" in await server.notice(
            browser
        )
        issuer.down = False
        issuer.document = {"issuer": "https://other.example.com"}
        await browser.get(f"{ROOT}/sign-in/start")
        assert "document is that of the issuer 'https://other.example.com'" in await server.notice(browser)
        issuer.document = {"token_endpoint": "http://id.example.com/token"}
        await browser.get(f"{ROOT}/sign-in/start")
        assert "no https address as token_endpoint" in await server.notice(browser)


async def test_a_person_without_a_rule_is_told_why_and_noted(sign_in: SignIn) -> None:
    sign_in.issuer.person |= {"groups": ["guests"]}
    assert "no rule of [oidc.roles] covers this person; the claim 'groups' has the groups: guests" in (
        await _refused(sign_in)
    )
    (told,) = (await sign_in.site.http().get(f"{ROOT}/audit")).json()["items"]
    assert (told["name"], told["actor"]) == ("sign_in_refused", "ada@example.com")


async def test_refusals_are_noted_within_a_bound(sign_in: SignIn) -> None:
    for _ in range(REFUSALS_MOST + 3):
        await _refused(sign_in, {"code": "guessed"})
    told = (await sign_in.site.http().get(f"{ROOT}/audit")).json()["items"]
    assert len(told) == REFUSALS_MOST
    sign_in.clock.ahead = 61.0
    await _refused(sign_in, {"code": "guessed"})
    assert len((await sign_in.site.http().get(f"{ROOT}/audit")).json()["items"]) == REFUSALS_MOST + 1


async def test_the_most_rights_among_the_rules_count(sign_in: SignIn) -> None:
    sign_in.issuer.person |= {"groups": ["platform", "leads"]}
    browser = await sign_in.signed_in()
    assert (await browser.get(f"{ROOT}/whoami")).json()["role"] == "admin"


async def test_claims_about_another_subject_do_not_count(sign_in: SignIn) -> None:
    """The provider answers for the access token with another person than the ID token names."""
    sign_in.issuer.claims = {"sub": "u-2"}
    assert "no rule of [oidc.roles] covers this person" in await _refused(sign_in)


# --- where one comes back to ----------------------------------------------------------------------


ELSEWHERE = [
    "https://evil.example.com/",
    "//evil.example.com",
    "/\\evil.example.com",
    "\\\\evil",
    "javascript:x",
    "",
    "/a\r\nSet-Cookie: x=y",
    "/nodes evil",
    "/" + "x" * 2000,
    "/ü",
]


async def test_one_comes_back_to_this_server_alone(sign_in: SignIn) -> None:
    for to in ELSEWHERE:
        browser = sign_in.browser()
        done = await sign_in.answered(browser, await sign_in.begun(browser, to))
        assert done.headers["location"] == "/" == page_path(to), to
    assert page_path("/nodes/node-1?x=%2F%5C#part") == "/nodes/node-1?x=%2F%5C#part"


async def test_a_place_that_was_put_into_the_cookie_is_no_way_out(sign_in: SignIn) -> None:
    browser = sign_in.browser()
    answer = await sign_in.begun(browser)
    (name,) = [each for each in browser.cookies if "sign-in" in each]
    secret = str(browser.cookies[name]).partition(".")[0]
    forged = base64.urlsafe_b64encode(b"//evil.example.com").decode()
    browser.cookies.set(name, f"{secret}.{forged}", domain="127.0.0.1")
    other = {each: value for each, value in browser.cookies.items() if each != name}
    assert other == {}
    done = await sign_in.answered(browser, answer)
    assert done.headers["location"] == "/"


# --- sessions -------------------------------------------------------------------------------------


def _session(browser: httpx.AsyncClient) -> tuple[str, str]:
    (found,) = [(name, str(value)) for name, value in browser.cookies.items() if "session" in name]
    return found


MARKS: list[tuple[str, dict[str, str], bool]] = [
    ("POST", {"Sec-Fetch-Site": "same-origin"}, True),
    ("POST", {"Origin": "{home}"}, True),
    ("POST", {"Sec-Fetch-Site": "same-origin", "Origin": "{home}"}, True),
    ("POST", {}, False),
    ("POST", {"Sec-Fetch-Site": "cross-site"}, False),
    ("POST", {"Sec-Fetch-Site": "same-site"}, False),
    ("POST", {"Sec-Fetch-Site": "none"}, False),
    ("POST", {"Origin": "https://evil.example.com"}, False),
    ("POST", {"Origin": "null"}, False),
    ("POST", {"Sec-Fetch-Site": "same-origin", "Origin": "https://evil.example.com"}, False),
    ("GET", {}, True),
    ("GET", {"Sec-Fetch-Site": "none"}, True),
    ("GET", {"Sec-Fetch-Site": "cross-site"}, False),
    ("GET", {"Origin": "https://evil.example.com"}, False),
]


async def test_a_session_counts_only_for_requests_of_the_page_itself(sign_in: SignIn) -> None:
    await sign_in.site.template()
    browser, admin = await sign_in.signed_in(), sign_in.site.http()
    del browser.headers["Sec-Fetch-Site"]
    for method, headers, allowed in MARKS:
        marked = {name: value.format(home=sign_in.site.url) for name, value in headers.items()}
        path = "/templates/ci/pause" if method == "POST" else "/nodes"
        answer = await browser.request(method, ROOT + path, headers=marked)
        assert answer.status_code == (200 if allowed else 403), (method, headers, answer.text)
        paused = (await admin.get(f"{ROOT}/templates/ci")).json()["paused"]
        assert paused is (allowed and method == "POST"), (method, headers)
        await admin.post(f"{ROOT}/templates/ci/resume")


async def test_sign_out_ends_the_session_at_once_also_for_a_stolen_cookie(sign_in: SignIn) -> None:
    browser = await sign_in.signed_in()
    name, secret = _session(browser)
    thief = sign_in.browser()
    thief.cookies.set(name, secret, domain="127.0.0.1")
    assert (await thief.get(f"{ROOT}/whoami")).status_code == 200
    out = await browser.post(f"{ROOT}/sign-out")
    assert out.json() == {"ended": True} and "Max-Age=0" in out.headers["set-cookie"]
    refused = await thief.get(f"{ROOT}/whoami")
    assert refused.status_code == 401 and "your session was ended; sign in again" in refused.json()["detail"]
    acts = (await sign_in.site.http().get(f"{ROOT}/audit")).json()["items"]
    assert [each["name"] for each in acts] == ["signed_in", "signed_out"]


async def test_an_admin_ends_a_session_at_once(sign_in: SignIn) -> None:
    browser = await sign_in.signed_in()
    who = (await browser.get(f"{ROOT}/whoami")).json()
    await sign_in.site.client().send(calls.revoke_token(who["token_id"]))
    assert (await browser.get(f"{ROOT}/whoami")).status_code == 401


async def test_a_session_ends_by_itself_when_it_is_not_used_and_when_it_is_old(sign_in: SignIn) -> None:
    lasts = CONFIG.lifetimes
    idle, busy = await sign_in.signed_in(), await sign_in.signed_in()
    sign_in.clock.ahead = lasts.idle - 60
    assert (await busy.get(f"{ROOT}/whoami")).status_code == 200
    sign_in.clock.ahead = lasts.idle + 60
    refused = await idle.get(f"{ROOT}/whoami")
    assert refused.status_code == 401 and "was not used for too long" in refused.json()["detail"]
    for hours in range(9, 24, 5):
        sign_in.clock.ahead = hours * 3600.0
        assert (await busy.get(f"{ROOT}/whoami")).status_code == 200
    sign_in.clock.ahead = lasts.session + 1
    refused = await busy.get(f"{ROOT}/whoami")
    assert refused.status_code == 401 and "has expired; sign in again" in refused.json()["detail"]


async def test_use_is_written_once_a_minute_at_most(sign_in: SignIn) -> None:
    browser = await sign_in.signed_in()
    who = (await browser.get(f"{ROOT}/whoami")).json()

    async def seen() -> float:
        (found,) = [each for each in await sign_in.site.store.access.tokens() if each.id == who["token_id"]]
        return found.seen_at or 0.0

    first = await seen()
    await browser.get(f"{ROOT}/nodes")
    assert await seen() == first
    sign_in.clock.ahead = NOTED_EVERY + 1
    await asyncio.gather(*(browser.get(f"{ROOT}/nodes") for _ in range(5)))
    assert await seen() > first + NOTED_EVERY


async def test_a_new_sign_in_has_a_new_secret_and_ends_the_one_before(sign_in: SignIn) -> None:
    """Session fixation: a secret that was there before the sign-in is worth nothing after it."""
    browser = sign_in.browser()
    (name, _), planted = _session(await sign_in.signed_in()), "muster_session_planted"
    browser.cookies.set(name, planted, domain="127.0.0.1")
    done = await sign_in.answered(browser, await sign_in.begun(browser))
    fresh = next(line for line in done.headers.get_list("set-cookie") if line.startswith(f"{name}="))
    assert planted not in fresh
    first = await sign_in.signed_in()
    name, secret = _session(first)
    await sign_in.answered(first, await sign_in.begun(first))
    earlier = sign_in.browser()
    earlier.cookies.set(name, secret, domain="127.0.0.1")
    assert (await earlier.get(f"{ROOT}/whoami")).status_code == 401


async def test_a_session_is_no_token_and_a_token_no_session(sign_in: SignIn) -> None:
    browser = await sign_in.signed_in()
    name, secret = _session(browser)
    assert (await sign_in.site.http(secret).get(f"{ROOT}/whoami")).status_code == 401
    other = sign_in.browser()
    other.cookies.set(name, sign_in.site.secrets[Role.ADMIN], domain="127.0.0.1")
    assert (await other.get(f"{ROOT}/whoami")).status_code == 401
    both = await browser.get(
        f"{ROOT}/whoami", headers={"Authorization": f"Bearer {sign_in.site.secrets[Role.VIEWER]}"}
    )
    assert both.json()["role"] == "viewer", "the header counts"


async def test_a_stream_ends_with_its_session(sign_in: SignIn) -> None:
    browser = await sign_in.signed_in()
    async with browser.stream("GET", f"{ROOT}/events", headers={"Accept": "text/event-stream"}) as stream:
        lines = stream.aiter_lines()
        await anext(lines)
        await browser.post(f"{ROOT}/sign-out")
        sign_in.clock.ahead = LOOK_AGAIN + 1
        await sign_in.site.store.note("a", "noise", reason=None, detail="", now=sign_in.clock.now())
        async with asyncio.timeout(10):
            assert [line async for line in lines][-1:] == [""], "it ends, and says nothing of what came later"


async def test_a_terminal_takes_the_session_of_the_page_itself_alone(sign_in: SignIn) -> None:
    browser = await sign_in.signed_in()
    cookie = "=".join(_session(browser))
    address = f"{sign_in.site.url.replace('http', 'ws')}{ROOT}/commands/cmd-none.0/terminal"

    async def refused(**headers: str) -> int:
        with pytest.raises(InvalidStatus) as told:
            await connect(address, additional_headers=headers, proxy=None)
        return int(told.value.response.status_code)

    assert await refused(Cookie=cookie, Origin=sign_in.site.url) == 404, "admitted: there is no such command"
    assert await refused(Cookie=cookie, Origin="https://evil.example.com") == 403
    assert await refused(Cookie=cookie) == 403, "no browser leaves out the mark"
    assert await refused(Origin=sign_in.site.url) == 401
    await browser.post(f"{ROOT}/sign-out")
    assert await refused(Cookie=cookie, Origin=sign_in.site.url) == 401


async def test_without_a_provider_there_is_no_sign_in_and_no_cookie_counts(tmp_path: Path) -> None:
    async with opened(tmp_path) as site:
        http = site.http("")
        assert (await http.get(f"{ROOT}/sign-in")).json() == {"name": None, "signed_in": False, "notice": ""}
        for method, path in (("GET", "/sign-in/start"), ("GET", "/sign-in/callback"), ("POST", "/device")):
            body = {"machine": "laptop"} if method == "POST" else None
            answer = await http.request(method, ROOT + path, json=body)
            assert (answer.status_code, answer.json()["code"]) == (404, "no_sign_in")


async def test_no_secret_of_a_sign_in_is_in_events_or_lists(sign_in: SignIn) -> None:
    browser = await sign_in.signed_in()
    _, secret = _session(browser)
    for path in ("/events?last=1000", "/tokens", "/audit", "/overview"):
        text = (await sign_in.site.http().get(ROOT + path)).text
        assert secret not in text and secret.rpartition("_")[2] not in text and "code-" not in text


# --- rules that change ----------------------------------------------------------------------------


async def test_changed_rules_count_for_sessions_and_logins_that_are_open(tmp_path: Path) -> None:
    async with signing(tmp_path) as server:
        browser = await server.signed_in()
        _, kept = _session(browser)
        login = (await server.site.http("").post(f"{ROOT}/device", json={"machine": "laptop"})).json()
        await browser.post(f"{ROOT}/device/{login['user_code']}/confirm")
        assert (await browser.get(f"{ROOT}/whoami")).json()["role"] == "operator"
    for rules, role in (
        ({"viewer": ("platform",)}, "viewer"),
        ({"admin": ("ADA@example.com",)}, "admin"),
        ({"admin": ("leads",)}, None),
    ):
        async with signing(tmp_path, config=replace(CONFIG, roles=rules)) as server:
            browser, terminal = server.browser(), server.site.http(login["device_code"])
            cookies = server.site.api.context.cookies
            assert cookies is not None
            browser.cookies.set(cookies.session, kept, domain="127.0.0.1")  # named after the port
            for http in (browser, terminal):
                told = await http.get(f"{ROOT}/whoami")
                if role is None:
                    assert told.status_code == 401 and "no rule of [oidc.roles] covers you" in told.text
                    continue
                assert told.status_code == 200, told.text
                assert told.json()["role"] == role
                paused = await http.post(f"{ROOT}/templates/none/pause")
                assert paused.status_code == (403 if role == "viewer" else 404)
            tokens = (await server.site.http().get(f"{ROOT}/tokens")).json()["items"]
            assert {each["role"] for each in tokens if each["kind"] != "token"} == {role or "operator"}


async def test_without_the_provider_its_logins_end_too(tmp_path: Path) -> None:
    async with signing(tmp_path) as server:
        browser = await server.signed_in()
        login = (await server.site.http("").post(f"{ROOT}/device", json={"machine": "laptop"})).json()
        await browser.post(f"{ROOT}/device/{login['user_code']}/confirm")
    async with opened(tmp_path) as site:
        assert (await site.http(login["device_code"]).get(f"{ROOT}/whoami")).status_code == 401


async def test_people_of_a_store_without_claims_sign_in_once_more(sign_in: SignIn) -> None:
    secret = "muster_of_an_earlier_version"
    early = ApiToken(id="tok-early", name="ada", role=Role.ADMIN, created_at=0.0, kind=TokenKind.LOGIN)
    await sign_in.site.ports.access.add_token(early, secret_hash=hashed(secret), actor="ada")
    told = await sign_in.site.http(secret).get(f"{ROOT}/whoami")
    assert told.status_code == 401 and "before Muster kept groups and addresses; sign in again" in told.text


async def test_a_login_has_no_older_groups_than_its_time_allows(tmp_path: Path) -> None:
    """It counts from the sign-in on the page, at which the provider named the groups."""
    async with signing(tmp_path, config=replace(CONFIG, login_max=3600.0)) as server:
        browser = await server.signed_in()
        server.clock.ahead = 3300.0
        begun = [
            (await server.site.http("").post(f"{ROOT}/device", json={"machine": "laptop"})).json()
            for _ in range(2)
        ]
        await browser.post(f"{ROOT}/device/{begun[0]['user_code']}/confirm")
        terminal = server.site.http(begun[0]["device_code"])
        assert (await terminal.get(f"{ROOT}/whoami")).status_code == 200
        server.clock.ahead = 3601.0
        assert "this login has expired" in (await terminal.get(f"{ROOT}/whoami")).json()["detail"]
        late = await browser.post(f"{ROOT}/device/{begun[1]['user_code']}/confirm")
        assert late.status_code == 403 and "sign out and in again" in late.json()["detail"]
