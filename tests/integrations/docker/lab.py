"""Providers on one real engine, each for an installation of its own, and what a test does by hand."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import uuid4

from muster.domain.template import TemplateSpec
from muster.integrations.docker import names
from muster.integrations.docker.provider import DockerProvider
from muster.integrations.docker.tables import EngineConfig
from muster.ports.provider import LaunchRequest
from muster.system import SystemClock, SystemIds
from muster.testing.provider_contract import asking
from tools.engines.running import IMAGE, Engine

PATIENCE = 30.0
CONFIG = EngineConfig(name="big", network="host", capacity=5)


def template(**docker: Any) -> TemplateSpec:
    return TemplateSpec(name="work", provider="docker", tables={"docker": {"image": IMAGE, **docker}})


async def no_phases(machine_id: str, phase: str, step: str) -> None:
    """For tests that don't listen."""


class Lab:
    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self._made: list[DockerProvider] = []
        self.installation_id = f"inst-{uuid4().hex[:12]}"

    def provider(
        self, *, installation_id: str = "", advance: Any = no_phases, **config: Any
    ) -> DockerProvider:
        made = DockerProvider(
            [replace(CONFIG, host=self.engine.host, **config)],
            installation_id=installation_id or self.installation_id,
            servers=("http://127.0.0.1:9",),
            dead_man=lambda _spec: 600.0,
            clock=SystemClock(),
            ids=SystemIds(),
            advance=advance,
        )
        self._made.append(made)
        return made

    def asking(self, token: str, count: int) -> LaunchRequest:
        return asking(token, count, template=template(), installation_id=self.installation_id)

    async def close(self) -> None:
        for provider in self._made:
            await provider.close()
        for installation in {self.installation_id, *(each._installation_id for each in self._made)}:
            self.clear(f"{names.INSTALLATION}={installation}")

    def clear(self, label: str) -> None:
        self.engine.clear(label)
        for name in self.volumes(label):
            self.engine.call("DELETE", f"/volumes/{name}", params={"force": "true"})

    def volumes(self, label: str) -> list[str]:
        found = self.engine.call("GET", "/volumes", params={"filters": f'{{"label":["{label}"]}}'}).json()
        return [each["Name"] for each in found["Volumes"] or ()]

    def container(self, machine_id: str) -> str:
        machine = names.parsed(machine_id)
        assert machine is not None
        return machine.container

    def inspect(self, machine_id: str) -> Mapping[str, Any]:
        answer = self.engine.call("GET", f"/containers/{self.container(machine_id)}/json")
        found: Mapping[str, Any] = answer.json() if answer.is_success else {}
        return found

    async def started(self, machine_id: str) -> None:
        """Until its container runs, or ran."""
        await self.until(lambda: self.status(machine_id) not in ("", "created", "initialized"))

    def status(self, machine_id: str) -> str:
        return str(self.inspect(machine_id).get("State", {}).get("Status", ""))

    async def until(self, holds: Callable[[], object]) -> None:
        async with asyncio.timeout(PATIENCE):
            while not await asyncio.to_thread(holds):  # noqa: ASYNC110 — an engine gives no signal
                await asyncio.sleep(0.02)

    async def write(self, machine_id: str, text: str) -> None:
        """Let its first process write to its console, and wait until the engine has it."""
        await self.started(machine_id)
        output = Path(f"/proc/{self.inspect(machine_id)['State']['Pid']}/fd/1")
        await asyncio.to_thread(output.write_text, text)
        last = text.splitlines()[-1].encode()
        path = f"/containers/{self.container(machine_id)}/logs?stdout=1&stderr=1&tail=20"
        await self.until(lambda: last in self.engine.call("GET", path).content)

    def run(self, machine_id: str, *argv: str) -> bytes:
        """Execute something beside the agent."""
        path = f"/containers/{self.container(machine_id)}/exec"
        asked = {"Cmd": list(argv), "AttachStdout": True, "AttachStderr": True}
        made = self.engine.call("POST", path, json=asked).json()
        answer = self.engine.call("POST", f"/exec/{made['Id']}/start", json={"Detach": False, "Tty": False})
        answer.raise_for_status()
        ended = self.engine.call("GET", f"/exec/{made['Id']}/json").json()
        assert ended["ExitCode"] == 0, answer.content
        return answer.content
