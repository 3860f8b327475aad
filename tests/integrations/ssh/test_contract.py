import pytest

from muster.domain.template import TemplateSpec
from muster.testing.provider_contract import CAPACITY, OTHER_INSTALLATION, ProviderContract, Scene
from tests.integrations.ssh.yard import Yard, needs_sshd

TEMPLATE = TemplateSpec(name="work", provider="ssh")


def scene_of(yard: Yard, slots: dict[str, int]) -> Scene:
    for name in slots:
        yard.host(name)
    inventory = yard.inventory({name: {"slots": count} for name, count in slots.items()})

    def write(machine_id: str, text: str) -> None:
        host = machine_id.partition("@")[2]
        with yard.machines[host].slot(machine_id).console.open("a") as console:
            console.write(text)

    return Scene(
        provider=yard.provider(inventory),
        neighbour=yard.provider(inventory, installation_id=OTHER_INSTALLATION),
        write=write,
        template=TEMPLATE,
    )


@needs_sshd
class TestSshProviderOnOneHost(ProviderContract):
    @pytest.fixture
    def scene(self, yard: Yard) -> Scene:
        return scene_of(yard, {"web1": CAPACITY})


@needs_sshd
class TestSshProviderOnTwoHosts(ProviderContract):
    @pytest.fixture
    def scene(self, yard: Yard) -> Scene:
        return scene_of(yard, {"web1": CAPACITY - 2, "web2": 2})
