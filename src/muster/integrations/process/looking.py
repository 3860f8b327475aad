"""What machines there are and how they are, read from their slots.

A slot that was started is a machine: running while its lock is held, stopping once its end was asked for
(or while leftovers are being swept up), gone otherwise. Looking also drives on what is ending: it is the
provider's only motor.
"""

from collections.abc import Sequence

from muster.integrations.process import killing
from muster.integrations.process.slots import Slot
from muster.ports.provider import Machine, MachineState


def look(slots: Sequence[Slot], *, grace: float, now: float) -> list[tuple[Slot, Machine]]:
    """The machines of these slots, in their order. Slots that were never started are none."""
    started = [slot for slot in slots if slot.started]
    states = [_state(slot) for slot in started]
    over = [slot for slot, state in zip(started, states, strict=True) if state is None]
    leftover = killing.sweep(over, now=now) if over else []
    seen: list[tuple[Slot, Machine]] = []
    for slot, state in zip(started, states, strict=True):
        if state is MachineState.STOPPING:
            killing.press_on(slot, grace=grace, now=now)
        ended = MachineState.STOPPING if slot in leftover else MachineState.GONE
        seen.append((slot, _machine(slot, state or ended)))
    return seen


def _state(slot: Slot) -> MachineState | None:
    """None if it is over but not known to be gone. The lock is taken before a slot is marked as started and
    kept until its keeper's end, so in this order there is no moment at which a living one looks over."""
    if slot.gone:
        return MachineState.GONE
    if not slot.locked():
        return None
    return MachineState.RUNNING if slot.end_asked_at() is None else MachineState.STOPPING


def _machine(slot: Slot, state: MachineState) -> Machine:
    return Machine(
        id=slot.machine_id,
        installation_id=slot.grant.installation_id,
        token=slot.grant.token,
        instance_type=slot.grant.instance_type,
        usage_class=slot.grant.usage_class,
        state=state,
    )
