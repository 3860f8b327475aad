import pytest

from muster.domain.errors import Forbidden
from muster.ports.identity import Identity
from muster.slot_provider.provider import SlotVerifier
from muster.testing.provider_contract import INSTALLATION, asking, ids, until_gone
from tests.integrations.process.lab import Lab


async def test_an_agents_proof_says_which_machine_it_is(lab: Lab) -> None:
    answer = await lab.provider().launch(asking("t1", 2))
    verifier = SlotVerifier("process", lab.root, installation_id=INSTALLATION)
    for agent in await lab.desk.met(2):
        machine_id = agent.facts["proof"].split(":")[1]
        assert machine_id in ids(answer)
        assert await verifier.verify(agent.facts["proof"]) == Identity(
            installation_id=INSTALLATION, provider="process", machine_id=machine_id, token="t1"
        )


async def test_forged_proofs_are_refused(lab: Lab) -> None:
    answer = await lab.provider().launch(asking("t1", 2))
    first, second = await lab.desk.met(2)
    _, own, secret = first.facts["proof"].split(":")
    _, other, other_secret = second.facts["proof"].split(":")
    record = lab.slot(own).record()
    assert record is not None
    verifier = SlotVerifier("process", lab.root, installation_id=INSTALLATION)
    forged = [
        "",
        "process",
        f"process:{own}",
        f"process:{own}:",
        f"process:{own}:{secret}x",
        f"process:{own}:{secret[:-1]}",
        f"process:{own}:{secret}:more",
        f"process:{own}:{record.secret_sha256}",
        f"process:{other}:{secret}",
        f"process:{own}:{other_secret}",
        f"process:{own.rpartition('.')[0]}.7:{secret}",
        f"process:../{own}:{secret}",
        f"process:{own}\n:{secret}",
        f"simulated:{own}:{secret}",
        f"process:{own}:\ud800",
        f"process:{own}:{'x' * 100_000}",
        f"{'process:' * 100}",
    ]
    for proof in forged:
        with pytest.raises(Forbidden, match="cannot accept the proof"):
            await verifier.verify(proof)
    assert len(ids(answer)) == 2


async def test_a_proof_is_worth_nothing_for_another_installation_or_after_the_end(lab: Lab) -> None:
    provider = lab.provider()
    answer = await provider.launch(asking("t1"))
    (agent,) = await lab.desk.met(1)
    with pytest.raises(Forbidden):
        await SlotVerifier("process", lab.root, installation_id="inst-2").verify(agent.facts["proof"])
    await provider.terminate(ids(answer))
    await until_gone(provider, ids(answer))
    with pytest.raises(Forbidden):
        await SlotVerifier("process", lab.root, installation_id=INSTALLATION).verify(agent.facts["proof"])
