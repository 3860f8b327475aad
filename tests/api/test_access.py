from http import HTTPStatus

import httpx
import pytest

from muster.api.access import Access
from muster.api.routes import TABLES
from muster.api.routing import Route
from muster.client import Unauthenticated, calls
from muster.domain import checks
from muster.domain.access import Role, may
from muster.domain.errors import Forbidden, InvalidRequest, NotFound
from tests.api.site import Site

ROUTES = [(table.root, route) for table in TABLES for route in table.routes]
STREAMS = ("/events",)


def _named(case: object) -> str:
    return f"{case.method} {case.path}" if isinstance(case, Route) else str(case)


async def _ask(http: httpx.AsyncClient, root: str, route: Route) -> httpx.Response:
    path = root + route.path
    for name in ("operation_id", "node_id", "command_id", "token_id", "blob_id", "name"):
        path = path.replace("{" + name + "}", "none")
    raw = route.takes is not None or route.method == "GET"
    return await http.request(route.method, path, content=b"" if raw else None, json=None if raw else {})


@pytest.mark.parametrize(("root", "route"), ROUTES, ids=_named)
async def test_every_route_is_for_whom_its_table_says(site: Site, root: str, route: Route) -> None:
    nobody = await _ask(site.http(""), root, route)
    node = await _ask(site.http("muster_not-a-token"), root, route)
    if route.access is Access.PUBLIC:
        assert nobody.status_code not in (401, 403)
        return
    for answer in (nobody, node):
        assert answer.status_code == HTTPStatus.UNAUTHORIZED
        assert answer.headers["www-authenticate"].startswith("Bearer")
        assert answer.json()["code"] == "unauthenticated"
    for role in Role:
        answer = await _ask(site.http(site.secrets[role]), root, route)
        needed = route.access.role
        if needed is None:
            assert answer.status_code == HTTPStatus.UNAUTHORIZED  # an API token speaks for no node
        elif may(role, needed):
            assert answer.status_code not in (401, 403, 500), answer.text
        else:
            assert answer.status_code == HTTPStatus.FORBIDDEN
            assert f"needs the role {needed}" in answer.json()["detail"]


async def test_no_token_and_a_wrong_one_get_the_same_answer(site: Site) -> None:
    http = site.http("")
    shown = ["", "Bearer", "Bearer nonsense", "Basic dTpw", "bearer " + "x" * 5000, "Bearer ü"]
    answers = []
    for value in shown:
        headers = [(b"authorization", value.encode())] if value else []
        answers.append(await http.get("/api/v1/nodes", headers=headers))
    assert {answer.status_code for answer in answers} == {401}
    assert len({answer.text for answer in answers}) == 1


async def test_who_asks_is_settled_before_what_is_asked(site: Site) -> None:
    http = site.http("")
    for content in (b"{", b"x" * 1000):
        answer = await http.post(
            "/api/v1/provisions", content=content, headers={"content-type": "application/json"}
        )
        assert answer.status_code == 401


async def test_a_token_is_made_used_listed_and_revoked(site: Site) -> None:
    admin = site.client()
    made = await admin.send(calls.make_token("ci", "operator", expires_in=3600))
    assert made.secret is not None
    assert made.secret.startswith("muster_")
    assert made.expires_at is not None
    http = site.http(made.secret)
    assert (await http.get("/api/v1/nodes")).status_code == 200
    listed = await admin.send(calls.tokens())
    assert made.id in [token.id for token in listed]
    assert all(token.secret is None for token in listed)
    assert (await admin.send(calls.revoke_token(made.id))).revoked_at is not None
    refused = await http.get("/api/v1/nodes")
    assert refused.status_code == 401
    assert "was revoked" in refused.json()["detail"]
    again = await admin.send(calls.revoke_token(made.id))
    assert again.revoked_at is not None


async def test_a_token_ends_when_it_expires(site: Site) -> None:
    made = await site.client().send(calls.make_token("brief", "viewer", expires_in=0.001))
    refused = await site.http(made.secret).get("/api/v1/nodes")
    assert refused.status_code == 401
    assert "has expired" in refused.json()["detail"]


async def test_a_token_must_be_sensible(site: Site) -> None:
    client = site.client()
    for call in (
        calls.make_token("", "viewer"),
        calls.make_token("x" * 64, "viewer"),
        calls.make_token("x", "emperor"),
        calls.make_token("x", "viewer", expires_in=-1),
        calls.make_token("x", "viewer", expires_in=checks.TOKEN_MAX + 1),
    ):
        with pytest.raises(InvalidRequest):
            await client.send(call)
    with pytest.raises(NotFound):
        await client.send(calls.revoke_token("tok-none"))
    made = await client.send(calls.make_token("x", "viewer", expires_in=checks.TOKEN_MAX))
    assert made.expires_at is not None


async def test_the_client_says_who_is_refused_and_why(site: Site) -> None:
    with pytest.raises(Forbidden, match="needs the role admin"):
        await site.client(Role.OPERATOR).send(calls.tokens())
    stranger = site.client()
    stranger._http.headers["Authorization"] = "Bearer wrong"
    with pytest.raises(Unauthenticated):
        await stranger.send(calls.nodes())


async def test_secrets_are_in_no_event_and_no_list(site: Site) -> None:
    await site.client().send(calls.make_token("ci", "operator"))
    events = await site.http().get("/api/v1/events?limit=1000")
    assert "token_added" in events.text
    assert "muster_" not in events.text
    assert "secret" not in (await site.http().get("/api/v1/tokens")).text


@pytest.mark.parametrize(
    "path", ["/api/v1/overview", "/api/v1/nodes/node-nobody", "/api/v1/no-such", "/healthz", "/openapi.json"]
)
async def test_no_answer_is_kept_by_anybody_or_guessed_at(site: Site, path: str) -> None:
    headers = (await site.http().get(path)).headers
    assert headers.get_list("cache-control") == ["no-store"]
    assert headers.get_list("x-content-type-options") == ["nosniff"]
