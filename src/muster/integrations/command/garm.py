"""External provider binaries of GARM (interface v0.1.0): Azure, GCP, OpenStack, LXD, Incus, OCI and others.

Such a binary makes one machine per call, has no token, and says why only in words. Some repeat a create
without noticing, and some delete nothing when they are asked by name. So Muster lists before each create,
deletes by id alone, and takes a create that failed as unknown. All machines of an installation are in one
pool of GARM's, so that one list shows them.

A machine gets its start script as a pre-install script of cloud-init. The runner that GARM would install is
replaced by a script that does nothing.
"""

import base64
import json
import uuid
from collections.abc import AsyncIterator, Mapping, Sequence
from enum import StrEnum
from typing import Any

import msgspec

from muster.domain.errors import Refused, Throttled, Uncertain
from muster.domain.reasons import Reason
from muster.integrations.command.calls import Caller, NotStarted, Result
from muster.integrations.command.executable import AGAIN, HELLO_SECONDS, told
from muster.integrations.command.machines import installation_prefix, launch_prefix
from muster.integrations.command.protocol import (
    AskedMachine,
    Hello,
    Launched,
    MachineIs,
    MachineSeen,
)
from muster.integrations.command.tables import TEMPLATE, CommandConfig
from muster.ports.provider import LaunchRequest

INTERFACE = "v0.1.0"
CALL_TIMEOUT = 300.0
"""Some binaries wait for an address before they answer."""
NOT_FOUND = 30
SETTINGS = ("image", "flavor", "os_type", "arch", "extra_specs")
_SPACE = uuid.UUID("5f1a1f0a-53e5-4b0e-9b4e-6d75737465a1")
_NO_RUNNER = "#!/bin/bash\nexit 0\n"


class Command(StrEnum):
    CREATE = "CreateInstance"
    DELETE = "DeleteInstance"
    LIST = "ListInstances"
    VERSION = "GetVersion"


class Instance(msgspec.Struct, frozen=True, kw_only=True):
    """What a binary says of a machine."""

    provider_id: str = ""
    name: str = ""
    status: str = ""
    provider_fault: str | None = None


class GarmBinary:
    """Implements muster.integrations.command.dialect.Dialect."""

    def __init__(self, config: CommandConfig, caller: Caller, *, installation_id: str) -> None:
        self._config = config
        self._caller = caller
        self._installation_id = installation_id
        self._timeout = config.call_timeout or CALL_TIMEOUT
        self._pool = str(uuid.uuid5(_SPACE, f"{installation_id}/{config.name}"))
        self._controller = str(uuid.uuid5(_SPACE, installation_id))
        self._version: str | None = None

    async def hello(self) -> Hello:
        if self._version is None:
            result = await self._call(Command.VERSION, seconds=HELLO_SECONDS)
            if result.status != 0:
                fact = f"cannot use {self._config.executable}: it did not tell its version"
                raise Throttled(told(fact, result), AGAIN)
            self._version = result.output.decode(errors="replace").strip()[:100]
        return Hello(
            protocols=(1,),
            name=self._config.executable.name,
            version=self._version,
            call_timeout=self._timeout,
        )

    async def launch(
        self, request: LaunchRequest, machines: Sequence[AskedMachine], types: Sequence[str]
    ) -> Launched:
        (machine,) = machines
        settings = TEMPLATE.of(request.template).settings
        body = json.dumps(self._bootstrap(machine, settings, request)).encode()
        result = await self._call(Command.CREATE, given=body)
        if result.status == 0:
            made = self._read(result, Instance)
            if not made.provider_id:
                raise Uncertain(f"cannot launch: {self._config.executable} told no id of {machine.name}")
            return Launched(machines=[_seen(made)])
        # The create may have left a machine behind: look before anything is said of it.
        async for seen in self.list(launch_prefix(self._installation_id, request.token)):
            if seen.name == machine.name:
                return Launched(machines=[seen])
        raise Uncertain(told(f"cannot launch: {self._config.executable} failed", result))

    async def list(self, prefix: str) -> AsyncIterator[MachineSeen]:
        result = await self._call(Command.LIST)
        if result.status != 0:
            raise Uncertain(told(f"cannot list machines: {self._config.executable} failed", result))
        for each in self._read(result, list[Instance] | None) or ():
            if each.name.startswith(prefix) and each.provider_id:
                yield _seen(each)

    async def describe(self, ids: Sequence[str]) -> Sequence[MachineSeen]:
        everything = [seen async for seen in self.list(installation_prefix(self._installation_id))]
        return [seen for seen in everything if seen.id in ids]

    async def console(self, machine_id: str, lines: int) -> str | None:
        return None

    async def terminate(self, ids: Sequence[str]) -> None:
        for machine_id in ids:
            result = await self._call(Command.DELETE, instance=machine_id)
            if result.status not in (0, NOT_FOUND):
                fact = f"cannot terminate {machine_id}: {self._config.executable} failed"
                raise Uncertain(told(fact, result))

    async def close(self) -> None:
        await self._caller.close()

    # --- one call ---------------------------------------------------------------------------------

    async def _call(
        self, command: Command, *, given: bytes = b"", instance: str = "", seconds: float | None = None
    ) -> Result:
        environment = {
            "GARM_COMMAND": command,
            "GARM_CONTROLLER_ID": self._controller,
            "GARM_POOL_ID": self._pool,
            "GARM_PROVIDER_CONFIG_FILE": str(self._config.config_file),
            "GARM_INTERFACE_VERSION": INTERFACE,
        }
        if instance:
            environment["GARM_INSTANCE_ID"] = instance
        try:
            result = await self._caller.call(
                given=given, seconds=seconds or self._timeout, environment=environment
            )
        except NotStarted as error:
            raise Throttled(f"cannot run {self._config.executable}: {error}", AGAIN) from error
        if result.status is None or result.too_long:
            why = "did not end in time" if result.status is None else "answered too much"
            raise Uncertain(told(f"cannot {command}: {self._config.executable} {why}", result))
        return result

    def _read(self, result: Result, kind: Any) -> Any:
        try:
            return msgspec.json.decode(result.output, type=kind)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            fact = f"cannot read the answer of {self._config.executable}: {error}"
            raise Uncertain(told(fact, result)) from error

    def _bootstrap(
        self, machine: AskedMachine, settings: Mapping[str, Any], request: LaunchRequest
    ) -> Mapping[str, object]:
        unknown = [key for key in settings if key not in SETTINGS]
        missing = [key for key in ("image", "flavor") if not settings.get(key)]
        if unknown or missing:
            fact = f"{unknown[0]} is unknown" if unknown else f"{missing[0]} is missing"
            message = (
                f"cannot launch: {fact} in command.settings of template {request.template.name};"
                f" known are {', '.join(SETTINGS)}"
            )
            raise Refused(message, Reason.PROVIDER_REFUSED)
        os_type, arch = settings.get("os_type", "linux"), settings.get("arch", "amd64")
        own = settings.get("extra_specs") or {}
        scripts = {**(own.get("pre_install_scripts") or {}), "99-muster": _encoded(machine.user_data)}
        # Binaries refuse a request without a runner's package for the system, though it is never fetched.
        tool = {
            "os": os_type,
            "architecture": arch,
            "filename": "none",
            "download_url": "https://localhost/none",
        }
        return {
            "name": machine.name,
            "tools": [{**tool, "sha256_checksum": "", "temp_download_token": ""}],
            "repo_url": "https://localhost/none",
            "callback-url": "https://localhost/none",
            "metadata-url": "https://localhost/none",
            "instance-token": "none",
            "extra_specs": {
                **own,
                "pre_install_scripts": scripts,
                "runner_install_template": _encoded(_NO_RUNNER),
            },
            "arch": arch,
            "os_type": os_type,
            "flavor": settings["flavor"],
            "image": settings["image"],
            "labels": [],
            "pool_id": self._pool,
        }


def _encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


_STATES = {"running": MachineIs.RUNNING, "stopped": MachineIs.STOPPING, "error": MachineIs.STOPPING}


def _seen(instance: Instance) -> MachineSeen:
    why = ""
    if instance.status in ("stopped", "error"):
        try:
            why = base64.b64decode(instance.provider_fault or "").decode(errors="replace")
        except ValueError:
            why = instance.provider_fault or ""
        why = why or f"the provider says: {instance.status}"
    try:
        return msgspec.convert(
            {
                "id": instance.provider_id,
                "name": instance.name,
                "state": _STATES.get(instance.status, MachineIs.PENDING),
                "why": why[:4096],
            },
            MachineSeen,
        )
    except msgspec.ValidationError as error:
        raise Uncertain(f"cannot use machine {instance.name!r} of the provider: {error}") from error
