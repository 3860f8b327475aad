import pytest

from muster.domain.template import TemplateSpec
from muster.testing.provider_contract import CAPACITY, OTHER_INSTALLATION, ProviderContract, Subject
from tests.integrations.ssh.lab import Lab, needs_sshd

TEMPLATE = TemplateSpec(name="work", provider="ssh")


def subject_of(lab: Lab, slots: dict[str, int]) -> Subject:
    for name in slots:
        lab.host(name)
    inventory = lab.inventory({name: {"slots": count} for name, count in slots.items()})

    def write(machine_id: str, text: str) -> None:
        host = machine_id.partition("@")[2]
        with lab.machines[host].slot(machine_id).console.open("a") as console:
            console.write(text)

    return Subject(
        provider=lab.provider(inventory),
        neighbour=lab.provider(inventory, installation_id=OTHER_INSTALLATION),
        write=write,
        template=TEMPLATE,
    )


@needs_sshd
class TestSshProviderOnOneHost(ProviderContract):
    @pytest.fixture
    def subject(self, lab: Lab) -> Subject:
        return subject_of(lab, {"web1": CAPACITY})


@needs_sshd
class TestSshProviderOnTwoHosts(ProviderContract):
    @pytest.fixture
    def subject(self, lab: Lab) -> Subject:
        return subject_of(lab, {"web1": CAPACITY - 2, "web2": 2})
