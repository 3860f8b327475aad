"""How soon jobs that just say `runs-on` have their runner, how fast many drain, and what listening costs.

A real server; nodes that ask for their kit and whose runner takes a job at once; a small GitHub. The floor of
the first figures is what can't be left out: one registration of a runner.
"""

import ast
import asyncio
import base64
import json
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from bench import Figure
from bench.agents import AGENT, EVERY
from bench.http_client import Wire
from bench.load_generator import BEAT
from bench.server_process import Server, data_directory, served
from bench.warm_store import Warm, warm
from fakes.github import FakeGitHub, Job
from muster.config import load
from muster.discovery import installed
from muster.integrations.github.parts import github_of
from muster.integrations.github.runners import RunnerSpec, Scope
from muster.system import SystemClock

ROUNDS = 40
NODES = 100
JOBS = 1000
IDLE = 20.0
WITHIN = 300.0
POLL = 50.0
AGAIN = 0.02
SCOPE, SET = "acme/shop", "muster-linux"
TOKEN = "a-personal-token"  # noqa: S105 — of a fake


async def measure() -> Sequence[Figure]:
    took, floor = await _one_by_one()
    drained, requests = await _crowd()
    cost, without = await _at_rest(SET), await _at_rest("")
    name = "from the job's message to its runner on a warm node"
    note = f"{len(took)} jobs; floor: one registration over HTTP"
    return [
        _figure(f"{name}, p50", _share(took, 0.5), "ms", floor=_share(floor, 0.5), note=note),
        _figure(f"{name}, p99", _share(took, 0.99), "ms", floor=_share(floor, 0.99)),
        _figure(f"{JOBS} queued jobs on {NODES} warm nodes, all done", drained, "s"),
        _figure("requests to GitHub per job of these", requests / JOBS, "requests", note="all kinds"),
        _figure(
            "CPU time of a server that listens to an idle set",
            cost / IDLE * 1e3,
            "ms/s",
            floor=without / IDLE * 1e3,
            note="floor: the same server without a set",
        ),
    ]


def _figure(name: str, value: float, unit: str, *, floor: float | None = None, note: str = "") -> Figure:
    return Figure(name=name, value=value, unit=unit, floor=floor, lower_is_better=True, note=note)


def _share(took: Sequence[float], share: float) -> float:
    ordered = sorted(took)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


async def _one_by_one() -> tuple[list[float], list[float]]:
    async with _listening(1) as (_, site):
        took = [await site.job() for _ in range(ROUNDS + 1)][1:]  # the first is for everybody to settle
        floor = await _registrations(site.github)
    return took, floor


async def _crowd() -> tuple[float, int]:
    async with _listening(NODES) as (_, site):
        before = len(site.github.world.calls)
        started = time.perf_counter()
        await site.done(site.queue(JOBS))
        return time.perf_counter() - started, len(site.github.world.calls) - before


async def _at_rest(scale_set: str) -> float:
    """Return the CPU seconds of a server that does nothing else for IDLE seconds."""
    async with _listening(0, scale_set) as (server, _):
        await asyncio.sleep(2.0)
        before = server.child.usage().cpu
        await asyncio.sleep(IDLE)
        return server.child.usage().cpu - before


async def _registrations(github: FakeGitHub) -> list[float]:
    with data_directory() as data:
        parts = github_of(load(_config(data, github)).tables["github"], SystemClock(), installation_id="")
        took: list[float] = []
        try:
            (scale_set,) = github.world.sets.of(SCOPE)
            for number in range(ROUNDS + 1):
                started = time.perf_counter()
                name = f"floor-{number}"
                await parts.directory.sets.just_in_time(Scope.named(SCOPE), scale_set.id, name=name)
                took.append((time.perf_counter() - started) * 1e3)
        finally:
            await parts.close()
    return took[1:]  # the first signs in


def _config(data: Path, github: FakeGitHub) -> Path:
    (data / "token").write_text(TOKEN)
    path = data / "muster.toml"
    token = f"token_file = {json.dumps(str(data / 'token'))}\n"
    path.write_text(f"{github.settings()}{token}runners_per_minute = 100000\n")
    return path


@asynccontextmanager
async def _listening(nodes: int, scale_set: str = SET) -> AsyncIterator[tuple[Server, "_Site"]]:
    """A server with warm nodes that listens to a set; nothing waits yet."""
    github = FakeGitHub().start()
    github.world.sets.window = POLL
    try:
        with data_directory() as data:
            config = _config(data, github)
            # As the server says of itself, or it retires the warm nodes.
            shared = installed().integrations["process"].providers
            given = load(config).tables["github"]
            parts = github_of(given, SystemClock(), installation_id="", shared=shared)
            runner = RunnerSpec(
                scope=SCOPE, scale_set=scale_set, max_runners=(nodes or 1) if scale_set else None
            )
            fields = {"runtime": "github", "tables": {"runner": runner}}
            warmed = await warm(data, nodes, serves=parts.runtime, **fields)
            await parts.close()
            async with served(data, config=config) as server:
                site = _Site(github, server.port, warmed)
                async with asyncio.TaskGroup() as group:
                    tasks = [group.create_task(site.live(node)) for node in warmed]
                    tasks.append(group.create_task(site.beat()))
                    if scale_set:
                        await site.session()
                    yield server, site
                    for task in tasks:
                        task.cancel()
    finally:
        github.stop()


class _Site:
    """The nodes' side and GitHub's side. A job is over as soon as its runner has it."""

    def __init__(self, github: FakeGitHub, port: int, nodes: Sequence[Warm]) -> None:
        self.github = github
        self._port = port
        self._nodes = nodes
        self._started: asyncio.Queue[float] = asyncio.Queue()
        self._idle: asyncio.Queue[None] = asyncio.Queue()

    async def session(self) -> None:
        sets = self.github.world.sets
        latest = time.monotonic() + WITHIN
        while not any(each.session and each.capacities for each in sets.of(SCOPE)):
            assert time.monotonic() < latest, "no replica listens"
            await asyncio.sleep(0.05)

    def queue(self, count: int) -> list[Job]:
        world = self.github.world
        names = [f"job-{number}" for number in range(count)]
        return world.queue_all(world.begin(SCOPE), names, [SET])

    async def job(self) -> float:
        """Queue a job; return the milliseconds until its runner is online. Waits until all is quiet again."""
        started = time.perf_counter()
        jobs = self.queue(1)
        took = (await asyncio.wait_for(self._started.get(), WITHIN) - started) * 1e3
        await self.done(jobs)
        await asyncio.wait_for(self._idle.get(), WITHIN)
        await asyncio.sleep(0.2)
        return took

    async def done(self, jobs: Sequence[Job]) -> None:
        wait = self.github.world.wait
        assert await asyncio.to_thread(wait, lambda: all(job.conclusion for job in jobs), WITHIN)

    async def beat(self) -> None:
        async with Wire(self._port) as wire:
            while True:
                for node in self._nodes:
                    await wire.ask("POST", BEAT, token=node.token, said={"activity": 1})
                await asyncio.sleep(EVERY)

    async def live(self, node: Warm) -> None:
        async with Wire(self._port) as wire:
            known = node.version
            while True:
                asked = f"{AGENT}/desired?known={known}&timeout={POLL:g}"
                desired: Any = json.loads(await wire.ask("GET", asked, token=node.token))
                known = desired["version"]
                if desired["directive"] == "attach":
                    known = await self._serve(wire, node, desired["assignment_id"])

    async def _serve(self, wire: Wire, node: Warm, assignment: str) -> int:
        """Do what the kit's program does, without its processes: one job. Return the version of the idle
        node."""
        said = {"assignment": assignment}
        kit: Any = json.loads(await wire.ask("POST", f"{AGENT}/kit", token=node.token, said=said))
        call = kit["program"].rstrip().splitlines()[-1]
        files = json.loads(base64.b64decode(ast.literal_eval(call[len("main(") : -1])["jit"]))
        world = self.github.world
        runner = world.holder(json.loads(base64.b64decode(files[".credentials"]))["data"])
        assert runner is not None
        world.connect(runner)
        self._started.put_nowait(time.perf_counter())
        runner.seen_at = float("inf")
        await wire.ask("POST", f"{AGENT}/report", token=node.token, said={"attached": assignment})
        job = world.take(runner, 0.0)
        if job is not None:
            world.finish(runner, job.id, "success", "")
        while True:  # until the node was handed over: then one report releases and cleans it
            said = {"detached": assignment}
            after = json.loads(await wire.ask("POST", f"{AGENT}/report", token=node.token, said=said))
            if after["directive"] not in ("attach", "detach"):
                self._idle.put_nowait(None)
                return int(after["version"])
            await asyncio.sleep(AGAIN)
