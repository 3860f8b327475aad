"""What a host says of a slot, as a machine of the port. A machine's id is `<slot>@<host>`."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from muster.domain.template import UsageClass
from muster.ports.provider import Machine, MachineState

_ID = re.compile(r"(l-[0-9a-f]{24}\.(?:0|[1-9][0-9]{0,5}))@([a-z0-9-]{1,63})", re.ASCII)


def parted(machine_id: str) -> tuple[str, str] | None:
    """Slot and host; None if it is no id of ours."""
    match = _ID.fullmatch(machine_id)
    return None if match is None else (match.group(1), match.group(2))


def by_host(machine_ids: Iterable[str]) -> dict[str, list[str]]:
    """The slots that are named, by host, each once."""
    found: dict[str, list[str]] = {}
    for slot, host in filter(None, map(parted, dict.fromkeys(machine_ids))):
        found.setdefault(host, []).append(slot)
    return found


def machine(told: Mapping[str, Any], host: str, installation_id: str) -> Machine:
    why = told["why"]
    return Machine(
        id=f"{told['id']}@{host}",
        installation_id=installation_id,
        token=told["token"],
        instance_type=told["type"],
        usage_class=UsageClass(told["usage"]),
        state=MachineState(told["state"]),
        why=f"{why} ({host})" if why else "",
    )


def uncertain(slots: Sequence[str], host: str, installation_id: str, why: str) -> list[Machine]:
    """Machines of a host that can't be asked."""
    return [
        Machine(
            id=f"{slot}@{host}",
            installation_id=installation_id,
            token="",
            instance_type="",
            usage_class=UsageClass.ON_DEMAND,
            state=MachineState.UNKNOWN,
            why=why,
        )
        for slot in slots
    ]
