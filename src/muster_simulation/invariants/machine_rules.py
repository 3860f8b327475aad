"""Promises about machines: none lacks a record for long, foreign ones are left alone, ends have a cause."""

from collections.abc import Sequence

from muster.domain.lifecycle import LIVE
from muster_simulation.cloud import Entry
from muster_simulation.invariants.broken import Broken
from muster_simulation.invariants.context import Context
from muster_simulation.invariants.folding import OPEN

TOLD_TO_GO = "told to go"
"""The cause of a machine's end when its join was answered with Gone."""
STRAY = 900.0
"""Seconds of calm within which a machine without a record is recorded or gone.

The sum of the visibility window, two looks of the orphan sweep, and the time of a termination.
"""


class MachineRules:
    def __init__(self, context: Context) -> None:
        self._at = context
        self._stray: dict[str, float] = {}
        """For how much calm time each machine has been without a record."""

    def terminate_called(self, machine_ids: Sequence[str]) -> None:
        """A replica asks for the end of machines."""
        for machine_id in machine_ids:
            entry = self._at.ledger.get(machine_id)
            if entry is not None and entry.installation_id != self._at.installation_id:
                raise Broken("no_foreign_machine_is_touched", f"terminate was called for {machine_id}")
            node_id = self._at.records.by_machine.get(machine_id)
            state = None if node_id is None else self._at.records.nodes[node_id]["state"]
            if state not in ("terminating", "terminated"):
                raise Broken(
                    "only_condemned_machines_end", f"terminate of {machine_id}, whose record is {state}"
                )

    def gone(self, entry: Entry) -> None:
        if entry.installation_id != self._at.installation_id:
            raise Broken("no_foreign_machine_is_touched", f"{entry.machine_id} is gone: {entry.cause}")
        self._stray.pop(entry.machine_id, None)
        node_id = self._at.records.by_machine.get(entry.machine_id)
        state = None if node_id is None else self._at.records.nodes[node_id]["state"]
        if entry.cause == TOLD_TO_GO and state in LIVE:
            raise Broken(
                "no_wanted_machine_is_turned_away", f"{entry.machine_id} was told to go, and it is {state}"
            )

    def tick(self, seconds: float, *, calm: bool) -> None:
        for entry in self._at.ledger.live():
            if entry.installation_id != self._at.installation_id:
                continue
            if self._known(entry):
                self._stray.pop(entry.machine_id, None)
            elif calm and entry.visible_at <= self._at.now():
                waited = self._stray.get(entry.machine_id, 0.0) + seconds
                self._stray[entry.machine_id] = waited
                if waited > STRAY:
                    raise Broken("no_machine_without_a_record", f"{entry} was a stray for {waited:.0f} s")

    def _known(self, entry: Entry) -> bool:
        records = self._at.records
        node_id = records.by_machine.get(entry.machine_id)
        if node_id is not None and records.nodes[node_id]["state"] != "terminated":
            return True
        launch = records.launches.get(records.by_token.get(entry.token, ""))
        return launch is not None and launch["state"] in OPEN
