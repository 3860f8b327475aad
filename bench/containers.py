"""A node as a container, from the request to ready, beside `podman run` of the same image.

Both start from nothing: create, start, and a Python that runs. The node also joins, boots and attaches.
"""

import asyncio
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from tempfile import mkdtemp

from bench import Figure
from bench.cold_node import provisioned
from bench.server_process import Server, data_directory, served
from muster.client import SyncClient, calls
from muster.domain.template import Reuse, TemplateSpec
from tests.e2e.containers import CONFIG, ENGINE
from tools.engines import getting
from tools.engines.running import IMAGE, Engine, running

ROUNDS = 10
TEMPLATE = TemplateSpec(
    name="container",
    provider="docker",
    resource_class="small",
    reuse=Reuse.NEVER,
    tables={"docker": {"image": IMAGE}},
)


async def measure() -> Sequence[Figure]:
    why = getting.missing("podman")
    if why is not None:
        print(f"cannot measure containers: {why}")
        return []
    return await asyncio.to_thread(_with_podman)


def _with_podman() -> Sequence[Figure]:
    with running("podman", Path(mkdtemp(prefix="muster-"))) as engine, data_directory() as root:
        settings = root / "muster.toml"
        settings.write_text(CONFIG + ENGINE.format(name="podman", host=engine.host, capacity=10))
        return asyncio.run(_served(engine, root, settings))


async def _served(engine: Engine, root: Path, settings: Path) -> Sequence[Figure]:
    async with served(root / "data", config=settings, capacity=0) as server:
        return await asyncio.to_thread(_measured, engine, server)


def _measured(engine: Engine, server: Server) -> Sequence[Figure]:
    bare: list[float] = []
    ready: list[float] = []
    with SyncClient(server.url, server.admin) as client:
        client.send(calls.apply(TEMPLATE))
        for turn in range(ROUNDS + 1):
            bare.append(_run(engine))
            ready.append(provisioned(client, "container", f"round-{turn}"))
    return [
        Figure(
            name="a container node, cold",
            value=1e3 * median(ready[1:] or ready),
            unit="ms",
            floor=1e3 * median(bare[1:] or bare),
            lower_is_better=True,
            note=f"median of {ROUNDS}; floor: `podman run --rm IMAGE python3 -c pass`, confined alike",
        )
    ]


def _run(engine: Engine) -> float:
    began = time.perf_counter()
    confined = ["--network", "host", "--read-only", "--cap-drop", "ALL", "--memory", "1g", "--cpus", "1"]
    engine.command("run", "--rm", *confined, IMAGE, "python3", "-c", "pass")
    return time.perf_counter() - began
