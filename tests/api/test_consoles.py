"""What a node's machine wrote to its console, over HTTP; and whose token one holds."""

import muster
from muster.domain.access import Role
from muster.domain.redaction import MARK
from muster.operations.evidence import LINES
from tests.api.site import Site

SECRET = "AKIA" + "Q7Z2MX4PLN8RTV5C"


async def _machine(site: Site) -> tuple[str, str]:
    operation = await site.provisioned(site.client())
    node = await site.store.node(operation.members[0].node_id)
    return node.id, node.machine_id


async def test_a_console_is_shown_from_its_end_and_without_secrets(site: Site) -> None:
    node_id, machine_id = await _machine(site)
    site.cloud.write(machine_id, "\n".join(f"line {n}" for n in range(LINES + 50)))
    site.cloud.write(machine_id, f"aws_access_key_id={SECRET}")
    viewer = site.http(site.secrets[Role.VIEWER])
    found = (await viewer.get(f"/api/v1/nodes/{node_id}/console")).json()
    lines = found["text"].split("\n")
    assert (len(lines), lines[0], found["missing"]) == (LINES, "line 51", "")
    assert MARK in lines[-1] and SECRET not in found["text"]
    assert found["read_at"]


async def test_a_console_is_asked_for_once_however_many_look_at_it(site: Site) -> None:
    node_id, machine_id = await _machine(site)
    path = f"/api/v1/nodes/{node_id}/console"
    first = (await site.http().get(path)).json()
    site.cloud.write(machine_id, "later")
    assert (await site.http().get(path)).json() == first
    assert first["text"] == "" and "no console" in first["missing"]


async def test_an_unknown_node_has_no_console(site: Site) -> None:
    answer = await site.http().get("/api/v1/nodes/node-0/console")
    assert (answer.status_code, answer.json()["code"]) == (404, "not_found")


async def test_a_caller_is_told_who_it_is(site: Site) -> None:
    for role in (Role.VIEWER, Role.OPERATOR, Role.ADMIN):
        said = (await site.http(site.secrets[role]).get("/api/v1/whoami")).json()
        assert (said["name"], said["role"], said["expires_at"]) == (role, role, None)
        assert said["installation_id"] == (await site.store.installation()).id
        assert said["version"] == muster.__version__
    refused = await site.http(site.secrets[Role.ENROL]).get("/api/v1/whoami")
    assert refused.status_code == 403
