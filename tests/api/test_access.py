from http import HTTPStatus

import httpx
import pytest

from muster.api.access import Access
from muster.api.router import Route
from muster.api.routes import TABLES
from muster.client import Unauthenticated, calls
from muster.domain import checks
from muster.domain.access import Role, may
from muster.domain.errors import Forbidden, InvalidRequest, NotFound
from tests.api.site import Site
from tests.api.test_agent_routes import _join, _machine

ROUTES = [(table.root, route) for table in TABLES for route in table.routes]
REFUSED = ("unauthenticated", "forbidden")
PROVEN_BY_BODY = ("/agent/join",)
"""Open to all: what is sent proves who it is."""


async def _ask(http: httpx.AsyncClient, root: str, route: Route) -> httpx.Response:
    path = root + route.path
    for name in ("operation_id", "node_id", "command_id", "token_id", "blob_id", "name"):
        path = path.replace("{" + name + "}", "none")
    raw = route.takes is not None or route.method == "GET"
    json: dict[str, object] | None = None if raw else {}
    async with http.stream(route.method, path, content=b"" if raw else None, json=json) as answer:
        if answer.headers.get("content-type") != "application/x-ndjson":  # an agent's stream never ends
            await answer.aread()
    return answer


NOBODY, UNKNOWN, ENDED, NODE = "nobody", "unknown", "ended", "node"


async def _credentials(site: Site) -> dict[str, str]:
    ended = await site.client().send(calls.make_token("brief", Role.ADMIN))
    await site.client().send(calls.revoke_token(ended.id))
    node = (await _join(site, await _machine(site))).json()["token"]
    roles = {str(role): site.secrets[role] for role in Role}
    return {NOBODY: "", UNKNOWN: "muster_unknown", ENDED: str(ended.secret), NODE: node, **roles}


def _expected(route: Route, who: str) -> bool | HTTPStatus:
    """Whether the credential opens the route; else how it is refused."""
    needed = route.access.role
    if route.access is Access.PUBLIC:
        return True
    if route.access is Access.NODE:
        return True if who == NODE else HTTPStatus.UNAUTHORIZED
    if needed is None or who not in tuple(Role):
        return HTTPStatus.UNAUTHORIZED
    return may(Role(who), needed) or HTTPStatus.FORBIDDEN


async def test_every_route_is_for_the_roles_that_its_table_names(site: Site) -> None:
    """All routes with all kinds of credentials: the tables are what the server mounts."""
    wrong: list[str] = []
    for who, secret in (await _credentials(site)).items():
        http = site.http(secret)
        for root, route in ROUTES:
            answer = await _ask(http, root, route)
            expected = _expected(route, who)
            if expected is True:
                right = answer.status_code not in (401, 403, 500) or route.path in PROVEN_BY_BODY
            else:
                right = answer.status_code == expected and answer.json()["code"] in REFUSED
            if not right:
                wrong.append(f"{who}: {route.method} {route.path}: {answer.status_code} for {expected}")
    assert not wrong, "\n".join(wrong)


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
    made = await admin.send(calls.make_token("ci", Role.OPERATOR, expires_in=3600))
    assert made.secret.startswith("muster_")
    assert made.expires_at is not None
    http = site.http(made.secret)
    assert (await http.get("/api/v1/nodes")).status_code == 200
    listed = await admin.send(calls.tokens())
    assert made.id in [token.id for token in listed]
    assert made.secret not in (await site.http().get("/api/v1/tokens")).text
    assert (await admin.send(calls.revoke_token(made.id))).revoked_at is not None
    refused = await http.get("/api/v1/nodes")
    assert refused.status_code == 401
    assert "was revoked" in refused.json()["detail"]
    again = await admin.send(calls.revoke_token(made.id))
    assert again.revoked_at is not None


async def test_a_token_ends_when_it_expires(site: Site) -> None:
    made = await site.client().send(calls.make_token("brief", Role.VIEWER, expires_in=0.001))
    refused = await site.http(made.secret).get("/api/v1/nodes")
    assert refused.status_code == 401
    assert "has expired" in refused.json()["detail"]


async def test_a_token_must_be_sensible(site: Site) -> None:
    client = site.client()
    for call in (
        calls.make_token("", Role.VIEWER),
        calls.make_token("x" * 64, Role.VIEWER),
        calls.make_token("x", "emperor"),  # type: ignore[arg-type]
        calls.make_token("x", Role.VIEWER, expires_in=-1),
        calls.make_token("x", Role.VIEWER, expires_in=checks.TOKEN_MAX + 1),
    ):
        with pytest.raises(InvalidRequest):
            await client.send(call)
    with pytest.raises(NotFound):
        await client.send(calls.revoke_token("tok-none"))
    made = await client.send(calls.make_token("x", Role.VIEWER, expires_in=checks.TOKEN_MAX))
    assert made.expires_at is not None


async def test_the_client_says_who_is_refused_and_why(site: Site) -> None:
    with pytest.raises(Forbidden, match="needs the role admin"):
        await site.client(Role.OPERATOR).send(calls.tokens())
    stranger = site.client()
    stranger._http.headers["Authorization"] = "Bearer wrong"
    with pytest.raises(Unauthenticated):
        await stranger.send(calls.nodes())


async def test_secrets_are_in_no_event_and_no_list(site: Site) -> None:
    await site.client().send(calls.make_token("ci", Role.OPERATOR))
    events = await site.http().get("/api/v1/events?limit=1000")
    assert "token_added" in events.text
    assert "muster_" not in events.text
    assert "secret" not in (await site.http().get("/api/v1/tokens")).text


@pytest.mark.parametrize(
    "path",
    ["/api/v1/overview", "/api/v1/nodes/node-nobody", "/api/v1/no-such", "/healthz", "/api/v1/openapi.json"],
)
async def test_no_answer_is_cached_or_guessed_at(site: Site, path: str) -> None:
    headers = (await site.http().get(path)).headers
    assert headers.get_list("cache-control") == ["no-store"]
    assert headers.get_list("x-content-type-options") == ["nosniff"]
