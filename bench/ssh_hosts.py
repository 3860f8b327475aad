"""Nodes on ssh hosts, from the request to ready, beside as many bare ssh commands on the same hosts."""

import asyncio
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median

from bench import Figure
from bench.server_process import Server, data_directory, served
from muster.client import SyncClient, calls
from muster.domain.requests import ProvisionRequest
from muster.domain.template import Reuse, TemplateSpec
from tests.e2e.site import until
from tests.e2e.ssh_site import config
from tests.integrations.ssh.lab import PYTHON, SSHD, Lab

NODES, HOSTS, ROUNDS = 20, 4, 3
TEMPLATE = TemplateSpec(name="ssh", provider="ssh", resource_class="small", reuse=Reuse.NEVER, max_nodes=100)


async def measure() -> Sequence[Figure]:
    if SSHD is None:
        raise RuntimeError("cannot measure: there is no sshd; install openssh-server")
    with data_directory() as root:
        lab = Lab(root=root)
        try:
            settings = await asyncio.to_thread(_hosts, lab, root)
            async with served(root / "data", config=settings, capacity=0) as server:
                return await asyncio.to_thread(_measured, lab, server)
        finally:
            await asyncio.to_thread(lab.sweep)


def _hosts(lab: Lab, root: Path) -> Path:
    for number in range(HOSTS):
        lab.host(f"host-{number}")
    settings = root / "muster.toml"
    settings.write_text(config(lab, {name: {"slots": NODES // HOSTS * 2} for name in lab.machines}))
    return settings


def _measured(lab: Lab, server: Server) -> Sequence[Figure]:
    bare: list[float] = []
    ready: list[float] = []
    with SyncClient(server.url, server.admin) as client:
        client.send(calls.apply(TEMPLATE))
        _provisioned(client, "warm-up")  # the server's sessions last; a bare command has none
        for turn in range(ROUNDS):
            bare.append(_commands(lab))
            ready.append(_provisioned(client, f"round-{turn}"))
    return [
        Figure(
            name=f"{NODES} nodes on {HOSTS} ssh hosts",
            value=median(ready),
            unit="s",
            floor=median(bare),
            lower_is_better=True,
            note=f"median of {ROUNDS}; floor: {NODES} times `ssh HOST python3 -c pass` at once",
        )
    ]


def _provisioned(client: SyncClient, run: str) -> float:
    """Provision and release; the seconds until all nodes were ready."""
    began = time.perf_counter()
    asked = client.send(calls.provision(ProvisionRequest(template="ssh", count=NODES, run=run)))
    until(lambda: client.send(calls.operation(asked.operation_id)).ended, "the provision")
    took = time.perf_counter() - began
    operation = client.send(calls.operation(asked.operation_id))
    if operation.status != "succeeded":
        raise RuntimeError(f"cannot provision: {operation.error}")
    client.send(calls.release(operation_id=asked.operation_id))
    until(lambda: not _living(client), "the end of all nodes")
    return took


def _living(client: SyncClient) -> bool:
    states = ("running", "releasing", "terminating")
    return bool(client.send(calls.nodes(state=states)).items)


def _commands(lab: Lab) -> float:
    """As many logins, each with a Python that does nothing, as fast as ssh can."""
    began = time.perf_counter()
    machines = list(lab.machines.values())
    started = [_command(lab, machines[each % HOSTS].port) for each in range(NODES)]
    codes = [each.wait() for each in started]
    if any(codes):
        raise RuntimeError(f"cannot log in: ssh ended with {codes}")
    return time.perf_counter() - began


def _command(lab: Lab, port: int) -> subprocess.Popen[bytes]:
    options = ["BatchMode=yes", "StrictHostKeyChecking=no", "UserKnownHostsFile=/dev/null", "LogLevel=ERROR"]
    argv = ["ssh", "-F", "/dev/null", "-i", str(lab.key), "-p", str(port)]
    argv += [word for option in options for word in ("-o", option)]
    return subprocess.Popen([*argv, "127.0.0.1", PYTHON, "-c", "pass"])
