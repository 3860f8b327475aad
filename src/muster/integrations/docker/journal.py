"""Records that must outlive this process, kept on the engines as volumes: nothing but labels, written once.

    muster-<launch>                   what was asked for with a token, and which engine takes which machine
    muster-<launch>-<ordinal>         its fate: `made` before it starts, or `ended` if it never will
    muster-<launch>-<ordinal>-failed  why one that was `made` could not start

A second writer of a name gets the labels of the first. So one of two launches wins for good, and one of
`made` and `ended`. Owns the reading: labels that can't be read are not ours.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from muster.domain.reasons import Reason
from muster.domain.serialization import fields_to_plain, from_plain
from muster.domain.template import UsageClass
from muster.integrations.docker import names
from muster.integrations.docker.api import Engine, EngineError, NoAnswer, path_of
from muster.integrations.docker.names import MachineName
from muster.integrations.docker.spec import Pull

RECORD = "muster.record"
MADE, ENDED = "made", "ended"


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """Everything that its machines are made from, so that any replica can make them."""

    installation_id: str
    token: str
    fingerprint: str
    count: int
    placed: tuple[str, ...]
    """The engine of each machine, in order."""
    instance_type: str
    usage_class: UsageClass
    at: float
    image: str
    pull: Pull
    bodies: Mapping[str, str]
    """By engine: the request for a container, as JSON."""

    @property
    def name(self) -> str:
        return names.launch_name(self.installation_id, self.token)

    @property
    def machines(self) -> tuple[MachineName, ...]:
        return tuple(
            MachineName(engine=engine, launch=self.name, ordinal=ordinal)
            for ordinal, engine in enumerate(self.placed)
        )

    def on(self, engine: str) -> tuple[MachineName, ...]:
        return tuple(machine for machine in self.machines if machine.engine == engine)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fate:
    machine_id: str
    how: str
    at: float
    why: str = ""
    reason: Reason = Reason.MACHINE_GONE

    @property
    def ended(self) -> bool:
        return self.how != MADE


async def write_launch(engine: Engine, launch: Launch) -> Launch:
    """The launch of this name: this one, or the one that came first. Raises EngineError or NoAnswer."""
    labels = _labels(launch.installation_id, "launch", launch, {names.LAUNCH: launch.name})
    found = await _written(engine, names.launch_volume(launch.name), labels)
    kept = launch_of(found)
    if kept is None:
        raise EngineError(
            0, f"the volume {names.launch_volume(launch.name)} is not one of Muster's: remove it"
        )
    return kept


async def write_fate(engine: Engine, installation_id: str, fate: Fate) -> Fate:
    """The machine's fate: this one, or the one that came first. Raises EngineError or NoAnswer."""
    labels = _labels(installation_id, "fate", fate, {names.MACHINE: fate.machine_id})
    return fate_of(await _written(engine, _machine(fate).fate, labels)) or fate


async def write_failure(engine: Engine, installation_id: str, fate: Fate) -> None:
    """Why a machine that was `made` could not start. Raises EngineError or NoAnswer."""
    labels = _labels(installation_id, "failure", fate, {names.MACHINE: fate.machine_id})
    await _written(engine, _machine(fate).failure, labels)


async def read_fate(engine: Engine, machine: MachineName) -> Fate | None:
    try:
        return fate_of(await engine.get(path_of("volumes", machine.fate)))
    except EngineError as error:
        if error.missing:
            return None
        raise


async def remove(engine: Engine, volume: str) -> None:
    try:
        await engine.call("DELETE", path_of("volumes", volume))
    except EngineError as error:
        if not error.missing:
            raise


def launch_of(volume: object) -> Launch | None:
    found: Launch | None = _read(Launch, volume, "launch")
    return found


def fate_of(volume: object) -> Fate | None:
    found: Fate | None = _read(Fate, volume, "fate")
    return found


def failure_of(volume: object) -> Fate | None:
    found: Fate | None = _read(Fate, volume, "failure")
    return found


def _machine(fate: Fate) -> MachineName:
    found = names.parsed(fate.machine_id)
    assert found is not None  # noqa: S101 — fates are of machines
    return found


async def _written(engine: Engine, name: str, labels: Mapping[str, str]) -> object:
    try:
        return await engine.post("/volumes/create", json={"Name": name, "Labels": labels})
    except EngineError as error:
        # Podman, if two create it in the same moment: the other one did.
        try:
            return await engine.get(path_of("volumes", name))
        except EngineError:
            raise error from None


def _labels(installation_id: str, kind: str, record: object, more: Mapping[str, str]) -> dict[str, str]:
    written = json.dumps(fields_to_plain(record), sort_keys=True)
    return {names.INSTALLATION: installation_id, names.KIND: kind, **more, RECORD: written}


def _read(kind: type[Any], volume: object, word: str) -> Any:
    labels = volume.get("Labels") if isinstance(volume, Mapping) else None
    if not isinstance(labels, Mapping) or labels.get(names.KIND) != word:
        return None
    try:
        data = json.loads(labels.get(RECORD) or "")
        return from_plain(kind, data)
    except (KeyError, TypeError, ValueError, AttributeError):
        return None


def lost(error: EngineError | NoAnswer, engine: Engine) -> str:
    """What to say of an engine that couldn't do it."""
    return f"engine {engine.name} ({engine.config.host}): {error}"


def volumes_in(answer: object) -> Sequence[object]:
    found = answer.get("Volumes") if isinstance(answer, Mapping) else None
    return found if isinstance(found, list) else ()
