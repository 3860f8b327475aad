"""End machines: ask their keepers, then use force, then remove what is left.

The keeper does the work: SIGTERM to its agent, the grace, SIGKILL to the whole tree. This module asks it to,
and kills it if it is still there long after. The kernel then kills its agent or sandbox. What even that
leaves carries the slot's marker or is in its cgroup, and is killed by that. All state is on disk, so any
server continues where another stopped: each describe and each terminate moves the work on. This module owns
the only signals that this provider sends, and the mark that a slot is gone.
"""

from __future__ import annotations

import signal
from pathlib import Path
from typing import TYPE_CHECKING

from muster.slots import limits, processes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from muster.slots.tree import Slot, Started

CLOCK_STEP = 60.0
SLACK = 5.0
"""Seconds beyond the grace that a keeper has for the killing itself."""


def ask(slot: Slot, *, now: float) -> None:
    """Write down that the end was asked for and tell the keeper; one that is just starting looks itself.

    Told also if that can't be written: it may be this very node that has filled the disk.
    """
    try:
        slot.ask_for_end(now)
    finally:
        _signal_keeper(slot, signal.SIGTERM)


def press_on(slot: Slot, *, grace: float, now: float) -> None:
    """Drive on a slot whose end was asked for and which is still locked: by force, once it is late."""
    asked_at = slot.end_asked_at()
    if asked_at is None:
        return
    # A clock that was set back a lot must not protect a machine for ever.
    if -CLOCK_STEP <= now - asked_at <= grace + SLACK:
        _signal_keeper(slot, signal.SIGTERM)
        return
    _signal_keeper(slot, signal.SIGKILL)
    record = slot.record()
    if record is not None:
        sweep_up([record])


def sweep(over: Sequence[Slot], *, now: float) -> list[Slot]:
    """Remove what is left of slots that were started and are unlocked, and mark them gone.

    Returns those of which something was still alive; look again.
    """
    records = [(slot, slot.record()) for slot in over]
    met = sweep_up([record for _, record in records if record is not None])
    alive = [slot for slot, record in records if record is not None and record.marker in met]
    for slot in over:
        if slot not in alive:
            try:
                slot.mark_gone(now)
            except OSError:
                alive.append(slot)  # on a full disk: it isn't known to be gone, and hides no other slot
    return alive


def sweep_up(records: Sequence[Started]) -> set[str]:
    """Kill what carries these slots' markers or is in their cgroups; returns the markers that were met."""
    boot = processes.boot_id()
    current = [record for record in records if record.boot_id == boot]
    met = processes.kill_carriers({record.marker for record in current})
    met |= {record.marker for record in current if record.cgroup and not limits.empty(Path(record.cgroup))}
    return met


def _signal_keeper(slot: Slot, sign: signal.Signals) -> None:
    record, kept = slot.record(), slot.kept()
    if record is None or kept is None or record.boot_id != processes.boot_id() or not slot.locked():
        return
    processes.send(kept.pid, sign, start=kept.start_time, marker=record.marker)
