"""A slot as a machine of the port."""

from muster.domain.template import UsageClass
from muster.ports.provider import Machine, MachineState
from muster.slots.tree import Slot


def machine(slot: Slot, state: str) -> Machine:
    """Return a slot as a machine. `state` is a word of muster.slots.looking."""
    return Machine(
        id=slot.machine_id,
        installation_id=slot.grant.installation_id,
        token=slot.grant.token,
        instance_type=slot.grant.instance_type,
        usage_class=UsageClass(slot.grant.usage_class),
        state=MachineState(state),
    )
