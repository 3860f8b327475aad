"""Workflows that sign in by themselves: what is theirs, what isn't, and who isn't let in at all."""

from dataclasses import replace
from typing import Any

import httpx
import pytest

from fakes.github import GitHubState, WorldTransport
from fakes.github.issuer import Issuer
from muster.api.access import Authenticator
from muster.client import calls
from muster.domain.template import Reuse
from muster.integrations.github.api import new_http
from muster.integrations.github.federation import GitHubFederation
from muster.integrations.github.runners import RunnerSpec
from muster.integrations.github.trust import Trust
from muster.ports.clock import Clock
from tests.api.site import Site

JOB = {"repository": "acme/shop", "ref": "refs/heads/main", "run_id": "7", "run_attempt": "1"}
ASKED = {"template": "ci", "count": 1, "run": "acme/shop/7-1"}


class Signing:
    def __init__(self, site: Site, clock: Clock | None = None) -> None:
        clock = clock or site.ports.clock
        self.issuer = Issuer(clock.now)
        self._http = new_http(WorldTransport(GitHubState(clock.now), self.issuer))
        federation = GitHubFederation(self._http, clock, issuer=self.issuer.url, audiences=["muster"])
        self._federation = federation
        self._site = site
        self.trust(Trust(name="all", repository="acme/*", templates=("ci",)))

    def trust(self, *rules: Trust) -> None:
        context, ports = self._site.api.context, self._site.ports
        self._federation.rules = rules
        authenticator = Authenticator(
            ports.access, context.plane.enrolment, ports.clock, federation=self._federation
        )
        self._site.api.application.context = replace(context, authenticator=authenticator)

    def http(self, **claims: Any) -> httpx.AsyncClient:
        client = self._site.http()
        client.headers["Authorization"] = f"Bearer {self.issuer.sign(**{**JOB, **claims})}"
        return client


@pytest.fixture
def signing(site: Site) -> Signing:
    return Signing(site)


async def test_a_workflow_provisions_and_releases_for_its_own_repository(signing: Signing) -> None:
    http = signing.http()
    who = (await http.get("/api/v1/whoami")).json()
    assert (who["token_id"], who["name"], who["role"]) == ("workflow:acme/shop", "run 7-1", "operator")
    made = await http.post("/api/v1/provisions", json={**ASKED, "owner": "somebody/else"})
    assert made.status_code == 202
    operation = made.json()
    assert operation["request"]["owner"] == "acme/shop", "whatever it says"
    path = f"/api/v1/operations/{operation['operation_id']}"
    assert (await http.get(path)).status_code == 200
    assert (await http.post("/api/v1/releases", json={"run": "acme/shop/7-1"})).status_code == 202


async def test_a_workflow_may_not_use_other_templates(signing: Signing) -> None:
    answer = await signing.http().post("/api/v1/provisions", json={**ASKED, "template": "gpu"})
    assert answer.status_code == 403
    assert "its templates are ci" in answer.json()["detail"]


@pytest.mark.parametrize(
    "other",
    [
        {"run_id": 8},
        {"attempt": 2},
        {"repository": "acme/web"},
        {"label": "ubuntu-latest"},
        {"label": "71-1"},
    ],
)
async def test_a_workflow_may_not_ask_for_another_run(signing: Signing, other: dict[str, Any]) -> None:
    workflow = {"repository": "acme/shop", "run_id": 7, "attempt": 1, **other}
    run = f"{workflow['repository']}/{workflow['run_id']}-{workflow['attempt']}"
    body = {**ASKED, "run": run, "workflow": workflow}
    answer = await signing.http().post("/api/v1/provisions", json=body)
    assert (answer.status_code, answer.json()["code"]) == (403, "forbidden")


@pytest.mark.parametrize(
    "run", ["acme/web/7-1", "acme/shop/8-1", "acme/shop/7-2", "acme/shop/7-11", "nightly"]
)
async def test_a_workflow_may_not_take_the_name_of_another_run(signing: Signing, run: str) -> None:
    """Nodes without a workflow: a workflow of this name would find a foreign provision among its own."""
    answer = await signing.http().post("/api/v1/provisions", json={**ASKED, "run": run})
    assert (answer.status_code, answer.json()["code"]) == (403, "forbidden")
    assert "this is run acme/shop/7-1" in answer.json()["detail"]


async def test_a_workflow_s_release_sees_only_its_own_provisions_of_a_run(
    signing: Signing, site: Site
) -> None:
    """A person with a token used the same name, before and after."""
    others = {**ASKED, "owner": "acme/web"}
    await site.http().post("/api/v1/provisions", json=others)
    http = signing.http()
    mine = (await http.post("/api/v1/provisions", json=ASKED)).json()["operation_id"]
    await site.http().post("/api/v1/provisions", json=others)
    listed = (await http.get("/api/v1/operations", params={"run": "acme/shop/7-1"})).json()
    assert [each["operation_id"] for each in listed["items"]] == [mine]
    released = await http.post("/api/v1/releases", json={"run": "acme/shop/7-1"})
    assert released.status_code == 202, released.text
    assert released.json()["request"]["operation_id"] == mine


async def test_a_workflow_doesn_t_see_who_has_its_nodes_after_it(signing: Signing, site: Site) -> None:
    await site.template(reuse=Reuse.ALWAYS)
    http, others, client = signing.http(), signing.http(repository="acme/web", run_id="8"), site.client()

    async def served(by: httpx.AsyncClient, run: str) -> str:
        made = await by.post("/api/v1/provisions", json={**ASKED, "run": run})
        assert made.status_code == 202, made.text
        name = str(made.json()["operation_id"])
        await site.ended(client, await client.send(calls.operation(name)))
        return name

    async def seen(by: httpx.AsyncClient, name: str) -> list[dict[str, Any]]:
        return list((await by.get(f"/api/v1/operations/{name}/nodes")).json()["items"])

    mine = await served(http, "acme/shop/7-1")
    (node,) = await seen(http, mine)
    assert (node["operation_id"], node["launch_id"]) == (mine, f"{mine}.1")
    await site.ended(client, await client.send(calls.release(operation_id=mine)))
    (node,) = await seen(http, mine)
    assert (node["owner"], node["last_owner"]) == (None, "acme/shop")

    theirs = await served(others, "acme/web/8-1")
    assert await seen(http, mine) == []
    (node,) = await seen(others, theirs)
    assert (node["launch_id"], node["last_owner"]) == (None, None), "nor who had it before"
    assert "acme/shop" not in str(node) and mine not in str(node)
    (node,) = await seen(site.http(), mine)
    assert (node["run"], node["launch_id"]) == ("acme/web/8-1", f"{mine}.1"), "an operator sees all"


@pytest.mark.parametrize("run", ["acme/shop/8-1", "acme/web/7-1", "", None])
async def test_a_workflow_may_not_list_what_is_not_of_its_run(signing: Signing, run: str | None) -> None:
    answer = await signing.http().get("/api/v1/operations", params={} if run is None else {"run": run})
    assert answer.status_code == 403, answer.text
    assert "cannot list operations beside those of run acme/shop/7-1" in answer.json()["detail"]


async def test_a_workflow_gets_runners_for_its_own_run_only(signing: Signing, site: Site) -> None:
    # An organisation's runners without a workflow: `run` would be their label, and nothing would end them.
    await site.template(runtime="github", tables={"runner": RunnerSpec(scope="acme")})
    for run in ("ubuntu-latest", "acme/shop/7-1"):
        answer = await signing.http().post("/api/v1/provisions", json={**ASKED, "run": run})
        assert answer.status_code == 403, answer.text
        assert "cannot provision runners of ci without `workflow`" in answer.json()["detail"]


async def test_a_workflow_gets_no_longer_than_its_template_s_time(signing: Signing, site: Site) -> None:
    await site.template(max_runtime=600.0)
    http = signing.http()
    answer = await http.post("/api/v1/provisions", json={**ASKED, "max_runtime": 601})
    assert answer.status_code == 403
    assert "at most the 600 s of the template" in answer.json()["detail"]
    assert (await http.post("/api/v1/provisions", json={**ASKED, "max_runtime": 600})).status_code == 202


async def test_a_workflow_gets_no_larger_nodes_than_its_rule_allows(signing: Signing) -> None:
    rule = Trust(name="shop", repository="acme/shop", templates=("ci",), resource_classes=("xlarge",))
    signing.trust(rule)
    http = signing.http()
    answer = await http.post("/api/v1/provisions", json={**ASKED, "resource_class": "16xlarge"})
    assert answer.status_code == 403
    assert "an operator may allow more in [trust.shop]" in answer.json()["detail"]
    answer = await http.post("/api/v1/provisions", json={**ASKED, "resource_class": "xlarge"})
    assert answer.status_code == 202, answer.text


async def test_a_repository_that_took_over_the_name_of_a_trusted_one_is_not_let_in(
    signing: Signing,
) -> None:
    signing.trust(Trust(name="shop", repository="acme/shop", repository_id=74, templates=("ci",)))
    assert (await signing.http(repository_id="74").get("/api/v1/whoami")).status_code == 200
    answer = await signing.http(repository_id="75").get("/api/v1/whoami")
    assert answer.status_code == 403
    assert "of acme/shop (id 75) at" in answer.json()["detail"]


async def test_a_job_of_another_file_or_event_is_not_let_in(signing: Signing) -> None:
    file = ".github/workflows/test.yml"
    signing.trust(
        Trust(name="shop", repository="acme/shop", workflows=(file,), events=("push",), templates=("ci",))
    )
    assert (await signing.http().get("/api/v1/whoami")).status_code == 200
    other = "acme/shop/.github/workflows/other.yml@refs/heads/main"
    for claims in ({"job_workflow_ref": other}, {"event_name": "pull_request_target"}):
        assert (await signing.http(**claims).get("/api/v1/whoami")).status_code == 403


async def test_a_key_that_another_repository_used_is_still_a_workflow_s_own(signing: Signing) -> None:
    headers = {"Idempotency-Key": "the-same"}
    made = []
    for repository in ("acme/web", "acme/shop", "acme/shop"):
        http = signing.http(repository=repository)
        body = {**ASKED, "run": f"{repository}/7-1"}
        answer = await http.post("/api/v1/provisions", json=body, headers=headers)
        assert answer.status_code == 202, answer.text
        made.append(answer.json()["operation_id"])
    assert made[0] != made[1] == made[2]
    released = await signing.http().post("/api/v1/releases", json={"operation_id": made[1]}, headers=headers)
    assert released.status_code == 409, "a key is for one request"


async def test_what_belongs_to_others_does_not_exist_for_a_workflow(signing: Signing, site: Site) -> None:
    made = await site.http().post("/api/v1/provisions", json={**ASKED, "run": "other", "owner": "acme/web"})
    operation = made.json()["operation_id"]
    http = signing.http()
    for path in ("", "/why", "/events"):
        assert (await http.get(f"/api/v1/operations/{operation}{path}")).status_code == 404
    assert (await http.post(f"/api/v1/operations/{operation}/cancel")).status_code == 404
    for body in ({"operation_id": operation}, {"run": "other"}):
        assert (await http.post("/api/v1/releases", json=body)).status_code == 404


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "nodes"),
        ("GET", "operations"),
        ("GET", "events"),
        ("GET", "templates"),
        ("POST", "runs"),
        ("POST", "commands"),
        ("POST", "pause"),
        ("GET", "tokens"),
    ],
)
async def test_everything_else_is_closed_to_a_workflow(signing: Signing, method: str, path: str) -> None:
    answer = await signing.http().request(method, f"/api/v1/{path}", json={} if method == "POST" else None)
    assert answer.status_code == 403, answer.text


@pytest.mark.parametrize(
    ("claims", "status", "words"),
    [
        ({"repository": "evil/shop"}, 403, "no [trust] rule of this server covers them"),
        ({"aud": "somebody"}, 401, "ask GitHub for the audience muster"),
        ({"exp": 1}, 401, "it expired"),
        ({"kid": "forged"}, 401, "has no such key"),
    ],
)
async def test_who_is_not_let_in_is_told_why(
    signing: Signing, claims: dict[str, Any], status: int, words: str
) -> None:
    answer = await signing.http(**claims).post("/api/v1/provisions", json=ASKED)
    assert answer.status_code == status
    assert words in answer.json()["detail"]


async def test_without_federation_a_signed_token_is_just_an_unknown_one(signing: Signing, site: Site) -> None:
    context = site.api.application.context
    authenticator = Authenticator(site.ports.access, context.plane.enrolment, site.ports.clock)
    site.api.application.context = replace(context, authenticator=authenticator)
    assert (await signing.http().get("/api/v1/whoami")).status_code == 401
