"""How soon warm nodes are runners that GitHub would give a job: from the request to running.

A real server; nodes that ask for their kit and whose runner is online at once; a small GitHub that answers at
once. The floor is what can't be left out: one registration. Counted beside it: requests to GitHub per
provision, which are one registration for each node and as few looks as possible.
"""

import ast
import asyncio
import json
import time
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import httpx

from bench import Figure
from bench.agents import AGENT, EVERY
from bench.http_client import Wire, provisioned, released
from bench.load_generator import BEAT
from bench.server_process import Server, data_directory, served
from bench.warm_store import Warm, warm
from fakes.github import FakeGitHub
from muster.config import load
from muster.discovery import installed
from muster.integrations.github.parts import github_of
from muster.integrations.github.runners import RunnerSpec
from muster.system import SystemClock

EACH = 4
ROUNDS = 30
POLL = 50.0
SCOPE = "acme/shop"
TOKEN = "a-personal-token"  # noqa: S105 — of a fake


async def measure() -> Sequence[Figure]:
    github = FakeGitHub().start()
    try:
        with data_directory() as data:
            config = _config(data, github)
            # As the server says of itself, or it retires the warm nodes.
            shared = installed().integrations["process"].providers
            given = load(config).tables["github"]
            parts = github_of(given, SystemClock(), installation_id="", shared=shared)
            fields = {"runtime": "github", "tables": {"runner": RunnerSpec(scope=SCOPE)}}
            nodes = await warm(data, EACH, serves=parts.runtime, **fields)
            await parts.close()
            async with served(data, config=config) as server:
                took, looks = await _rounds(server, github, nodes)
        floor = await _registrations(github)
    finally:
        github.stop()
    name = f"warm hand-over of {EACH} runners"
    note = f"{len(took)} of them; floor: one registration over HTTP"
    each = f"beside {EACH} registrations, {EACH} look-ups and {EACH} removals"
    return [
        _figure(f"{name}, p50", _share(took, 0.5), floor=_share(floor, 0.5), note=note),
        _figure(f"{name}, p99", _share(took, 0.99), floor=_share(floor, 0.99), note=""),
        Figure(
            name="looks at GitHub per provision",
            value=looks,
            unit="requests",
            lower_is_better=True,
            note=each,
        ),
    ]


def _config(data: Path, github: FakeGitHub) -> Path:
    (data / "token").write_text(TOKEN)
    path = data / "muster.toml"
    path.write_text(f"{github.settings()}token_file = {json.dumps(str(data / 'token'))}\n")
    return path


def _figure(name: str, value: float, *, floor: float, note: str) -> Figure:
    return Figure(name=name, value=value, unit="ms", floor=floor, lower_is_better=True, note=note)


def _share(took: Sequence[float], share: float) -> float:
    ordered = sorted(took)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


async def _rounds(server: Server, github: FakeGitHub, nodes: Sequence[Warm]) -> tuple[list[float], float]:
    took: list[float] = []
    async with asyncio.TaskGroup() as group:
        agents = [group.create_task(_live(server.port, github, node)) for node in nodes]
        agents.append(group.create_task(_beat(server.port, nodes)))
        async with Wire(server.port) as wire:
            for number in range(ROUNDS + 1):
                if number == 1:  # the first is for everybody to settle
                    github.world.calls.clear()
                started = time.perf_counter()
                ended = await provisioned(
                    wire, server.admin, template="warm", count=EACH, run=f"run-{number}"
                )
                if number:
                    took.append((time.perf_counter() - started) * 1e3)
                await released(wire, server.admin, ended["operation_id"])
        for agent in agents:
            agent.cancel()
    # Each removal looks for its runner by name first.
    looks = github.world.asked(f"GET /repos/{SCOPE}/actions/runners") - github.world.asked("DELETE")
    return took, looks / ROUNDS


async def _beat(port: int, nodes: Sequence[Warm]) -> None:
    async with Wire(port) as wire:
        while True:
            for node in nodes:
                await wire.ask("POST", BEAT, token=node.token, said={"activity": 1})
            await asyncio.sleep(EVERY)


async def _live(port: int, github: FakeGitHub, node: Warm) -> None:
    async with Wire(port) as wire:
        known = node.version
        while True:
            asked = f"{AGENT}/desired?known={known}&timeout={POLL:g}"
            desired: Any = json.loads(await wire.ask("GET", asked, token=node.token))
            known, directive = desired["version"], desired["directive"]
            if directive in ("attach", "detach"):
                if directive == "attach" and desired["kit"]:
                    await _serve(wire, github, node, desired["assignment_id"])
                fact = {f"{directive}ed": desired["assignment_id"]}
                desired = json.loads(await wire.ask("POST", f"{AGENT}/report", token=node.token, said=fact))
                known = desired["version"]


async def _serve(wire: Wire, github: FakeGitHub, node: Warm, assignment: str) -> None:
    """Do what the kit's program does, without its processes."""
    name = f"-{assignment}"
    if any(runner.name.endswith(name) for runner in github.world.of(SCOPE)):
        return
    said = {"assignment": assignment}
    kit: Any = json.loads(await wire.ask("POST", f"{AGENT}/kit", token=node.token, said=said))
    call = kit["program"].rstrip().splitlines()[-1]
    words = ast.literal_eval(call.removeprefix("main(").removesuffix(")"))["arguments"]
    given = dict(pairwise(words))
    runner = github.world.register(SCOPE, given["--name"], given["--labels"].split(","), ephemeral=False)
    github.world.connect(runner)
    runner.seen_at = float("inf")


async def _registrations(github: FakeGitHub) -> list[float]:
    took: list[float] = []
    async with httpx.AsyncClient(headers={"Authorization": f"Bearer {TOKEN}"}) as http:
        for _ in range(ROUNDS):
            started = time.perf_counter()
            answer = await http.post(f"{github.url}/repos/{SCOPE}/actions/runners/registration-token")
            took.append((time.perf_counter() - started) * 1e3)
            assert answer.status_code == 201
    return took
