"""The request that makes a container, and the archive that is put into it before it starts. Pure.

The secret is in the archive alone: neither the environment, nor a label, nor the command line has it. The
entry opens it, removes it and hands its descriptor to the agent, before anything else runs in the container.
"""

import hashlib
import io
import json
import tarfile
from collections.abc import Mapping, Sequence
from typing import Any

from muster.integrations.docker import names
from muster.integrations.docker.names import MachineName
from muster.integrations.docker.spec import HOST_NETWORK, DockerSpec
from muster.integrations.docker.tables import EngineConfig
from muster.ports.provider import LaunchRequest

MIB = 1 << 20
HOME = "/muster"
"""An anonymous volume: the agent, its directory and every workspace. It goes with the container."""
NODE = f"{HOME}/node"
SECRET_FD = 3
START = f'exec {SECRET_FD}<{NODE}/secret && rm -f {NODE}/secret && exec "$0" {HOME}/agent.py run "$@"'
"""$0 is the interpreter."""
GRACE = 10
"""Seconds from SIGTERM to SIGKILL: the agent ends its jobs and wipes."""
LOG: Mapping[str, Any] = {"Type": "json-file", "Config": {"max-size": "1m", "max-file": "2"}}
"""Always named: an operator's default driver may keep nothing, or everything."""
SCRATCH = ("/tmp", "/var/tmp", "/run")  # noqa: S108 — the container's own
WIPED = (HOME, NODE, f"{NODE}/home", f"{NODE}/bin", "/dev/shm", *SCRATCH)  # noqa: S108 — the container's own
PRIVATE, OPEN = 0o444, 0o777
"""The image's user may be any, and nothing but the entry runs while the files are there."""


def body(
    request: LaunchRequest, spec: DockerSpec, config: EngineConfig, *, servers: Sequence[str], dead_man: float
) -> dict[str, Any]:
    """What all containers of a launch on one engine have in common."""
    network = spec.network or config.network
    words = [spec.python, *(word for url in servers for word in ("--server", url))]
    words += ["--dir", NODE, "--secret-fd", str(SECRET_FD), "--dead-man", f"{dead_man:g}"]
    if network == HOST_NETWORK:
        words.append("--shared-net")  # what comes in there tells nothing of this node's boot
    return {
        "Image": spec.parts.whole,
        "Entrypoint": ["/bin/sh", "-c", START],
        "Cmd": words,
        "User": spec.user,
        "WorkingDir": "/",
        "Env": ["MUSTER_WIPE=" + "\n".join(WIPED), f"HOME={NODE}"],
        "Volumes": {HOME: {}},
        "StopSignal": "SIGTERM",
        "StopTimeout": GRACE,
        "Labels": {
            names.INSTALLATION: request.installation_id,
            names.KIND: "node",
            names.LAUNCH: names.launch_name(request.installation_id, request.token),
            names.TOKEN: request.token,
            "muster.template": request.template.name,
            "muster.operation": request.launch_id.rpartition(".")[0],
        },
        "HostConfig": _host_config(request, spec, config, network),
    }


def _host_config(
    request: LaunchRequest, spec: DockerSpec, config: EngineConfig, network: str
) -> dict[str, Any]:
    size = request.resource_class
    found: dict[str, Any] = {
        "NanoCpus": size.cpu * 10**9,
        "Memory": size.memory_mib * MIB,
        "MemorySwap": size.memory_mib * MIB,  # as much as memory alone: no swap
        "PidsLimit": spec.pids,
        "CapDrop": ["ALL"],
        "CapAdd": list(spec.capabilities),
        "SecurityOpt": ["no-new-privileges=true"],
        "ReadonlyRootfs": spec.read_only,
        "RestartPolicy": {"Name": "no"},
        "LogConfig": LOG,
        # Also where the root can be written: what jobs leave there is wiped, and bounded by memory.
        "Tmpfs": dict.fromkeys(SCRATCH, f"rw,exec,nosuid,nodev,mode=1777,size={spec.tmp_mib}m"),
    }
    if network:
        found["NetworkMode"] = network
    if config.extra_hosts:
        found["ExtraHosts"] = list(config.extra_hosts)
    if spec.runtime:
        found["Runtime"] = spec.runtime
    return found


def for_machine(common: str, machine: MachineName, *, kind: str, usage: str, secret: str) -> dict[str, Any]:
    """The request for one container."""
    found: dict[str, Any] = json.loads(common)
    found["Cmd"] += ["--proof-prefix", f"docker:{machine.id}:"]
    found["Hostname"] = machine.container
    found["Labels"] |= {
        names.MACHINE: machine.id,
        names.TYPE: kind,
        names.USAGE: usage,
        names.SECRET_HASH: hashlib.sha256(secret.encode()).hexdigest(),
    }
    return found


def archive(agent: str, secret: str) -> bytes:
    """What is put into the volume: the agent, and the node's directory with the secret."""
    written = io.BytesIO()
    with tarfile.open(fileobj=written, mode="w") as tar:
        # Not the top: Podman doesn't change the mode of a volume's own directory.
        directory = tarfile.TarInfo("node")
        directory.type, directory.mode = tarfile.DIRTYPE, OPEN
        tar.addfile(directory)
        for name, text in {"agent.py": agent, "node/secret": secret}.items():
            data = text.encode()
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(data), PRIVATE
            tar.addfile(entry, io.BytesIO(data))
    return written.getvalue()
