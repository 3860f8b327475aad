"""Diagnoses over HTTP: what was collected, or why there is nothing."""

import pytest

from muster.client import calls
from muster.domain.access import Role
from muster.domain.diagnosis import Bundle, Cause, Section, Source
from muster.domain.errors import NoDiagnosis, NotFound
from muster.domain.ids import NodeId
from muster.domain.reasons import Reason
from tests.api.site import Site


async def test_a_bundle_is_shown_whole_with_its_diagnosis(site: Site) -> None:
    await site.template()
    client = site.client(Role.VIEWER)
    operation = await site.provisioned(site.client())
    node_id = operation.members[0].node_id
    filed = Bundle(
        node_id=NodeId(node_id),
        collected_at=1000.0,
        reason=Reason.BOOT_SCRIPT_FAILED,
        detail="the boot script ended with 127",
        sections=(
            Section(
                name=Source.AGENT, text="the boot script ended with 127\nboot: line 3: x: command not found"
            ),
            Section(name=Source.CONSOLE, missing="there is none"),
        ),
    )
    assert await site.store.file_bundle(filed, cause=Cause.UNKNOWN)
    shown = await client.send(calls.diagnosis(node_id))
    assert (shown.node_id, shown.cause, shown.reason) == (node_id, "script_failed", Reason.BOOT_SCRIPT_FAILED)
    assert shown.evidence is not None
    assert (shown.evidence.section, shown.evidence.line) == ("agent", 2)
    assert [(each.name, each.missing) for each in shown.sections] == [
        ("agent", ""),
        ("console", "there is none"),
    ]
    assert shown.collected_at.timestamp() == 1000 and shown.advice and shown.fatal


async def test_without_a_bundle_the_answer_says_why(site: Site) -> None:
    await site.template()
    client = site.client()
    operation = await site.provisioned(client)
    node_id = operation.members[0].node_id
    with pytest.raises(NoDiagnosis, match="has not failed: it is running"):
        await client.send(calls.diagnosis(node_id))
    await client.send(calls.terminate(node_id))
    with pytest.raises(NoDiagnosis, match="its boot did not fail; it ended with operator"):
        await client.send(calls.diagnosis(node_id))
    answer = await site.http().get(f"/api/v1/nodes/{node_id}/diagnosis")
    assert (answer.status_code, answer.json()["code"]) == (404, "no_diagnosis")
    with pytest.raises(NotFound):
        await client.send(calls.diagnosis("no-such-node"))


async def test_without_a_token_no_diagnosis_is_shown(site: Site) -> None:
    answer = await site.http("").get("/api/v1/nodes/x/diagnosis")
    assert answer.status_code == 401
