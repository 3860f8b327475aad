"""Read from their slots which machines exist, and their state.

A slot that was started is a machine. It is running while its lock is held. It is stopping once its end was
asked for, or while leftovers are removed. Otherwise it is gone. Looking also moves on what is ending: no
other code of the provider does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from muster.slots import termination

if TYPE_CHECKING:
    from collections.abc import Sequence

    from muster.slots.tree import Slot

RUNNING, STOPPING, GONE = "running", "stopping", "gone"
"""The words of `muster.ports.provider.MachineState`."""


def look(slots: Sequence[Slot], *, grace: float, now: float) -> list[tuple[Slot, str]]:
    """Return the state of each slot, in their order. Slots that were never started are left out."""
    started = [slot for slot in slots if slot.started]
    states = [(slot, _state(slot)) for slot in started]
    over = [slot for slot, state in states if not state]
    leftover = termination.sweep(over, now=now) if over else []
    seen: list[tuple[Slot, str]] = []
    for slot, state in states:
        if state == STOPPING:
            termination.press_on(slot, grace=grace, now=now)
        seen.append((slot, state or (STOPPING if slot in leftover else GONE)))
    return seen


def _state(slot: Slot) -> str:
    """Return the state; empty if it is over but not known to be gone.

    The lock is taken before a slot is marked as started and kept until its keeper's end. So in this order, a
    living slot never looks over.
    """
    if slot.gone:
        return GONE
    if not slot.locked():
        return ""
    return RUNNING if slot.end_asked_at() is None else STOPPING
