"""Jobs that sign in by themselves: what is accepted, and why the rest is not."""

from collections.abc import AsyncIterator
from typing import Any

import jwt
import pytest

from fakes.github import WorldTransport
from fakes.github.issuer import Issuer
from muster.domain.errors import Forbidden, NotYet
from muster.integrations.github.api import new_http
from muster.integrations.github.federation import KEYS_FOR, LEEWAY, LOOK_AGAIN, LOOKS_MOST, GitHubFederation
from tests.integrations.github.conftest import Site

JOB = {"repository": "acme/shop", "ref": "refs/heads/main", "run_id": "7", "run_attempt": "1"}


class Signing:
    def __init__(self, site: Site) -> None:
        self.site = site
        self.issuer = Issuer(site.clock.now)
        self.http = new_http(WorldTransport(site.world, self.issuer))
        self.federation = GitHubFederation(
            self.http, site.clock, issuer=self.issuer.url, audiences=["muster"]
        )


@pytest.fixture
async def signing(site: Site) -> AsyncIterator[Signing]:
    made = Signing(site)
    yield made
    await made.http.aclose()


async def test_a_job_is_who_github_says_it_is(signing: Signing) -> None:
    token = signing.issuer.sign(**JOB, environment="production")
    assert signing.federation.recognises(token)
    job = await signing.federation.verify(token)
    assert (job.repository, job.ref, job.run_id, job.attempt) == ("acme/shop", "refs/heads/main", 7, 1)
    assert job.environment == "production"


async def test_a_job_is_of_the_file_that_defines_it_and_of_a_repository_that_keeps_its_id(
    signing: Signing,
) -> None:
    shared = "acme/shared/.github/workflows/runners.yml@refs/tags/v1"
    token = signing.issuer.sign(**JOB, job_workflow_ref=shared, event_name="schedule", repository_id="74")
    job = await signing.federation.verify(token)
    assert (job.workflow_ref, job.event, job.repository_id) == (shared, "schedule", 74)
    token = signing.issuer.sign(**JOB, job_workflow_ref=None, event_name=None, repository_id=None)
    job = await signing.federation.verify(token)
    assert job.workflow_ref == "acme/shop/.github/workflows/test.yml@refs/heads/main", "of the run itself"
    assert (job.event, job.repository_id) == ("", 0)
    with pytest.raises(Forbidden, match="its claims can't be read"):
        await signing.federation.verify(signing.issuer.sign(**JOB, repository_id="a"))


async def test_keys_are_fetched_once_and_again_when_they_are_old(signing: Signing) -> None:
    for _ in range(3):
        await signing.federation.verify(signing.issuer.sign(**JOB))
    assert signing.issuer.asked == 1
    signing.site.clock.at += KEYS_FOR
    await signing.federation.verify(signing.issuer.sign(**JOB))
    assert signing.issuer.asked == 2


async def test_a_key_that_is_new_since_the_last_look_is_looked_up_at_once(signing: Signing) -> None:
    await signing.federation.verify(signing.issuer.sign(**JOB))
    signing.issuer.kids.append("key-2")
    await signing.federation.verify(signing.issuer.sign(**JOB, kid="key-2"))
    assert signing.issuer.asked == 2


async def test_forged_keys_make_us_look_a_few_times_and_never_have_a_new_key_refused(
    signing: Signing,
) -> None:
    await signing.federation.verify(signing.issuer.sign(**JOB))
    for number in range(LOOKS_MOST):
        for _ in range(3):  # one that was looked up is refused without another look
            with pytest.raises(Forbidden, match="has no such key"):
                await signing.federation.verify(signing.issuer.sign(**JOB, kid=f"forged-{number}"))
    assert signing.issuer.asked == 1 + LOOKS_MOST
    signing.issuer.kids.append("key-2")
    signing.site.clock.at += LOOK_AGAIN - 10
    with pytest.raises(NotYet, match="ask again in 10 s") as early:
        await signing.federation.verify(signing.issuer.sign(**JOB, kid="key-2"))
    assert signing.issuer.asked == 1 + LOOKS_MOST
    signing.site.clock.at += early.value.retry_after
    await signing.federation.verify(signing.issuer.sign(**JOB, kid="key-2"))
    await signing.federation.verify(signing.issuer.sign(**JOB))


@pytest.mark.parametrize(
    "entry",
    [
        {"kty": "RSA", "kid": "broken"},
        {"kty": "RSA", "kid": "broken", "n": "=", "e": "AQAB"},
        {"kty": "RSA", "kid": "broken", "n": 7, "e": []},
        {"kty": "RSA", "n": "AQAB", "e": "AQAB"},
        {"kid": "no kind"},
        "text",
        None,
        [],
    ],
)
async def test_an_entry_that_cant_be_read_takes_no_other_key_with_it(signing: Signing, entry: Any) -> None:
    signing.issuer.beside = [entry]
    await signing.federation.verify(signing.issuer.sign(**JOB))


async def test_a_new_key_is_not_refused_while_the_issuer_is_away(signing: Signing) -> None:
    await signing.federation.verify(signing.issuer.sign(**JOB))
    signing.issuer.kids.clear()
    with pytest.raises(NotYet, match="can't be looked up"):
        await signing.federation.verify(signing.issuer.sign(**JOB, kid="key-2"))
    await signing.federation.verify(signing.issuer.sign(**JOB))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"aud": "somebody-else"}, "for another audience; ask GitHub for the audience muster"),
        ({"iss": "https://evil.test"}, "it was not issued by"),
        ({"repository": None}, "repository"),
        ({"run_id": None}, "run_id"),
        ({"run_id": "seven"}, "claims can't be read"),
        ({"repository": "no repository"}, "claims can't be read"),
        ({"exp": "never"}, "."),
    ],
)
async def test_a_foreign_or_incomplete_token_is_refused_with_the_reason(
    signing: Signing, changes: dict[str, Any], words: str
) -> None:
    with pytest.raises(Forbidden, match=words):
        await signing.federation.verify(signing.issuer.sign(**{**JOB, **changes}))


async def test_each_address_of_a_server_is_an_audience_and_no_other(signing: Signing) -> None:
    mine = ["https://muster.acme.test", "https://10.0.0.5:8080"]
    federation = GitHubFederation(signing.http, signing.site.clock, issuer=signing.issuer.url, audiences=mine)
    for audience in mine:
        await federation.verify(signing.issuer.sign(**JOB, aud=audience))
    with pytest.raises(Forbidden, match=r"for the audience https://muster.acme.test or https://10"):
        await federation.verify(signing.issuer.sign(**JOB, aud="https://muster.evil.test"))


async def test_a_token_signed_by_another_issuer_is_refused(signing: Signing, private_key: str) -> None:
    forged = signing.issuer.sign(**JOB, key=private_key)
    with pytest.raises(Forbidden, match="its signature is not"):
        await signing.federation.verify(forged)


async def test_a_token_that_names_another_algorithm_is_refused(signing: Signing) -> None:
    for forged in (
        signing.issuer.sign(**JOB, key="k" * 64, algorithm="HS256"),
        jwt.encode({**JOB, "iss": signing.issuer.url}, "", algorithm="none", headers={"kid": "key-1"}),
    ):
        with pytest.raises(Forbidden, match="cannot accept the OIDC token"):
            await signing.federation.verify(forged)


async def test_times_are_judged_by_our_clock_on_both_sides_of_the_limit(signing: Signing) -> None:
    now = int(signing.site.clock.at)
    for ends, accepted in ((now - LEEWAY + 1, True), (now - LEEWAY, False)):
        token = signing.issuer.sign(**JOB, exp=ends)
        if accepted:
            await signing.federation.verify(token)
        else:
            with pytest.raises(Forbidden, match="it expired 60 s ago"):
                await signing.federation.verify(token)
    with pytest.raises(Forbidden, match="not valid yet"):
        await signing.federation.verify(signing.issuer.sign(**JOB, nbf=now + LEEWAY + 1))


async def test_without_keys_it_is_too_early_to_say(site: Site) -> None:
    async with new_http(WorldTransport(site.world)) as http:  # no server answers there
        issuer = Issuer(site.clock.now)
        federation = GitHubFederation(http, site.clock, issuer=issuer.url, audiences=["muster"])
        with pytest.raises(NotYet, match="can't be had"):
            await federation.verify(issuer.sign(**JOB))


@pytest.mark.parametrize("text", ["", "muster_abc", "a.b", "ey.a.b.c", "x.y.z", "ey" + "a" * 20_000 + ".b.c"])
def test_what_is_no_signed_token_is_not_taken_for_one(site: Site, text: str) -> None:
    federation = GitHubFederation(site.http(), site.clock, issuer="http://i.test", audiences=["muster"])
    assert not federation.recognises(text)
