"""Machines whose proof says who they are, and not which launch they belong to: their provider is asked."""

from dataclasses import replace

import pytest

from muster.domain.errors import Forbidden, Gone, NotYet, Uncertain
from muster.domain.lifecycle import NodeState
from muster.domain.reasons import Reason
from muster.enrolment.joins import VerifierByProvider
from muster.enrolment.signals import Enrolment
from muster.ports.identity import Identity
from tests.harness import Behaviour, Harness, hangs, with_harness
from tests.harness.agents import new_enrolment

NEVER_JOINS = Behaviour(join=False)


class BareVerifier:
    """A proof is `cloud:` and the machine's id, with the time of its start."""

    def __init__(self, since: float) -> None:
        self._since = since

    async def verify(self, proof: str) -> Identity:
        return Identity(provider="cloud", machine_id=proof.removeprefix("cloud:"), since=self._since)


def enrolment(harness: Harness, since: float = 0.0) -> Enrolment:
    verifier = VerifierByProvider({"cloud": BareVerifier(since)})
    return new_enrolment(replace(harness.ports, verifier=verifier), harness.settings)


async def join(found: Enrolment, machine_id: str, key: str = "key-1") -> str:
    admission = await found.join(f"cloud:{machine_id}", key=key, boot_id="boot-1")
    return admission.node_id


@with_harness
async def test_a_machine_with_a_record_joins_although_its_provider_can_not_be_asked(harness: Harness) -> None:
    await harness.template()
    harness.agents.script(NEVER_JOINS)
    await (await harness.replica()).provision(1)
    (node,) = await harness.count(1, NodeState.CREATED)
    harness.cloud.trouble = Uncertain("no answer")

    assert await join(enrolment(harness), node.machine_id) == node.id
    harness.cloud.trouble = None


@with_harness
async def test_a_machine_of_an_open_launch_is_told_to_come_again(harness: Harness) -> None:
    await harness.template()
    harness.agents.script(NEVER_JOINS)
    harness.cloud.script(hangs())
    await (await harness.replica()).provision(1)
    await harness.pass_time(1.0)

    with pytest.raises(NotYet, match="not settled yet"):
        await join(enrolment(harness, harness.now), "i-0001")
    (node,) = await harness.count(1, NodeState.CREATED)
    assert await join(enrolment(harness, harness.now), "i-0001") == node.id


@with_harness
async def test_what_its_provider_does_not_show_waits_for_the_window_and_no_longer(harness: Harness) -> None:
    window = harness.cloud.visibility_window
    young, old = enrolment(harness, harness.now - window + 1), enrolment(harness, harness.now - window)

    with pytest.raises(NotYet, match="doesn't show machine i-9999 or its tags yet"):
        await join(young, "i-9999")
    with pytest.raises(Gone, match="knows no machine i-9999"):
        await join(old, "i-9999")


@with_harness
async def test_no_machine_is_sent_away_because_the_provider_did_not_answer(harness: Harness) -> None:
    harness.cloud.trouble = Uncertain("no answer")
    with pytest.raises(NotYet, match="cannot read the tags of machine"):
        await join(enrolment(harness), "i-9999")
    harness.cloud.trouble = None


@with_harness
async def test_a_machine_of_another_installation_or_of_none_is_refused(harness: Harness) -> None:
    harness.agents.script(NEVER_JOINS, NEVER_JOINS, NEVER_JOINS)
    for installation in ("inst-other", ""):
        box = harness.cloud.make("inst-other/op-1.1", installation)
        with pytest.raises(Forbidden, match="another installation"):
            await join(enrolment(harness), box.id)
    own = harness.cloud.make("inst/op-1.1", (await harness.store.installation()).id)
    with pytest.raises(Gone, match="no open launch"):
        await join(enrolment(harness), own.id)


@with_harness
async def test_a_machine_whose_tags_are_not_shown_yet_waits_for_the_window_and_no_longer(
    harness: Harness,
) -> None:
    harness.agents.script(NEVER_JOINS)
    box = harness.cloud.make("inst/op-1.1", "")
    window = harness.cloud.visibility_window
    with pytest.raises(NotYet, match="or its tags yet"):
        await join(enrolment(harness, harness.now - window + 1), box.id)
    with pytest.raises(Forbidden, match="another installation"):
        await join(enrolment(harness, harness.now - window), box.id)


@with_harness
async def test_a_document_opens_the_door_once(harness: Harness) -> None:
    await harness.template()
    harness.agents.script(NEVER_JOINS)
    await (await harness.replica()).provision(1)
    (node,) = await harness.count(1, NodeState.CREATED)
    await join(enrolment(harness), node.machine_id)

    with pytest.raises(Forbidden, match="another key"):
        await join(enrolment(harness), node.machine_id, key="stolen")
    assert (await harness.node(node.id)).reason is Reason.DUPLICATE_JOIN


@with_harness
async def test_a_proof_of_an_unknown_kind_is_refused_with_those_that_are_known(harness: Harness) -> None:
    with pytest.raises(Forbidden, match=r"no kind that this server knows \(cloud\)"):
        await enrolment(harness).join("gcp:x", key="k", boot_id="b")
