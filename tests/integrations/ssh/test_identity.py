"""Who may join as a machine of an ssh host."""

import hashlib
from pathlib import Path

import pytest

from muster.domain.errors import Forbidden, NotYet
from muster.integrations.ssh.provider import SshVerifier
from muster.slots import tree
from muster.testing.provider_contract import INSTALLATION, asking, ids, until_gone
from tests.integrations.ssh.lab import Lab, needs_sshd
from tests.integrations.ssh.test_contract import TEMPLATE

pytestmark = needs_sshd


def give_secret(path: Path, secret: str) -> None:
    """Let a slot have a secret that the test knows."""
    record = tree.read(path / "started.json")
    assert record is not None
    tree.write(
        path / "started.json", {**record, "secret_sha256": hashlib.sha256(secret.encode()).hexdigest()}
    )


async def test_a_machine_joins_with_its_own_secret_while_it_lives(lab: Lab) -> None:
    machine = lab.host("web1")
    provider = lab.provider()
    made, other = ids(await provider.launch(asking("t1", 2, template=TEMPLATE)))
    give_secret(machine.slot(made).path, "secret")
    verifier = SshVerifier(provider)
    identity = await verifier.verify(f"ssh:{made}:secret")
    assert (identity.provider, identity.machine_id) == ("ssh", made)
    assert (identity.installation_id, identity.token) == (INSTALLATION, "t1")
    for proof in (f"ssh:{made}:other", f"ssh:{other}:secret", f"ssh:{made}:"):
        with pytest.raises(Forbidden):
            await verifier.verify(proof)
    await provider.terminate([made])
    await until_gone(provider, [made])
    with pytest.raises(Forbidden, match="no such machine"):
        await verifier.verify(f"ssh:{made}:secret")


@pytest.mark.parametrize(
    "proof",
    [
        "",
        "ssh",
        "ssh:",
        "ssh::",
        "ssh:../../etc:secret",
        "ssh:l-000000000000000000000000.0@web9:secret",
        "ssh:l-000000000000000000000000.0@web1:secret",
        "ssh:l-000000000000000000000000.0@web1:a:b",
        "process:l-000000000000000000000000.0:secret",
        "ssh:l-000000000000000000000000.0@web1:" + "x" * 1000,
        "ssh:l-000000000000000000000000.0@web1:\ud800",
    ],
)
async def test_a_proof_that_names_no_machine_is_refused(lab: Lab, proof: str) -> None:
    lab.host("web1")
    with pytest.raises(Forbidden):
        await SshVerifier(lab.provider()).verify(proof)


async def test_a_machine_of_a_host_that_is_away_is_told_to_try_again(lab: Lab) -> None:
    machine = lab.host("web1")
    provider = lab.provider()
    (made,) = ids(await provider.launch(asking("t1", 1, template=TEMPLATE)))
    machine.kill()
    with pytest.raises(NotYet, match="web1"):
        await SshVerifier(provider).verify(f"ssh:{made}:secret")
