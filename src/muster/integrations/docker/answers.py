"""An engine's words in ours: the state of a container, and why it ended. Pure.

`OOMKilled` may be missing from Podman although memory was short, so its absence proves nothing.
"""

from collections.abc import Mapping
from typing import Any

from muster.domain.reasons import Reason
from muster.ports.provider import MachineState

STATES = {
    "created": MachineState.PENDING,
    "initialized": MachineState.PENDING,
    "configured": MachineState.PENDING,
    "running": MachineState.RUNNING,
    "paused": MachineState.RUNNING,
    "restarting": MachineState.RUNNING,
    "stopping": MachineState.STOPPING,
    "removing": MachineState.STOPPING,
    "exited": MachineState.GONE,
    "stopped": MachineState.GONE,
    "dead": MachineState.GONE,
}
SIGKILL, SIGTERM = 137, 143
_CODES = {
    125: "the engine could not run it",
    126: "its program could not be executed",
    127: "a program is missing in the image: it needs sh and the interpreter of docker.python",
    SIGKILL: "it was killed: by hand, by the engine, or for want of memory",
    139: "it crashed",
    SIGTERM: "it was told to end",
}


def state_of(word: object) -> MachineState:
    """A word that a later engine made up is taken for running: it is looked at again."""
    return STATES.get(word, MachineState.RUNNING) if isinstance(word, str) else MachineState.RUNNING


def why(inspected: object, *, memory_mib: int | None = None) -> str:
    """Why a container ended, for people."""
    state = _mapping(_mapping(inspected).get("State"))
    code = state.get("ExitCode")
    error = state.get("Error")
    if state.get("OOMKilled") is True:
        limit = f" of {memory_mib} MiB" if memory_mib else ""
        return f"it ran out of its memory{limit} (exit code {code}): choose a larger resource_class"
    told = f": {error}" if isinstance(error, str) and error else ""
    if not isinstance(code, int):
        return f"its end is not known{told}"
    known = _CODES.get(code)
    return f"exit code {code}{f' ({known})' if known else ''}{told}"


def reason_of(inspected: object) -> Reason:
    """The template can be mended if its image lacks something; else the machine is just gone."""
    code = _mapping(_mapping(inspected).get("State")).get("ExitCode")
    return Reason.PROVIDER_REFUSED if code in (125, 126, 127) else Reason.MACHINE_GONE


def memory_of(inspected: object) -> int | None:
    limit = _mapping(_mapping(inspected).get("HostConfig")).get("Memory")
    return limit >> 20 if isinstance(limit, int) and limit > 0 else None


def identity_of(container: object) -> str:
    """The engine's id of a container; empty if it says none."""
    found = _mapping(container).get("Id")
    return found if isinstance(found, str) and found.isalnum() else ""


def status_of(inspected: object) -> str:
    found = _mapping(_mapping(inspected).get("State")).get("Status")
    return found if isinstance(found, str) else ""


def runtime_of(inspected: object) -> str:
    found = _mapping(_mapping(inspected).get("HostConfig")).get("Runtime")
    return found if isinstance(found, str) else ""


def labels_of(container: object) -> Mapping[str, str]:
    found = _mapping(container).get("Labels")
    if found is None:
        found = _mapping(_mapping(container).get("Config")).get("Labels")
    return {key: value for key, value in _mapping(found).items() if isinstance(value, str)}


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
