"""A runner's process on a simulated node: it takes one job, does it, and ends.

It runs in the Life of its node's agent. So it stands still with its machine, and dies with it without a word.
"""

import ast
import asyncio

from muster_simulation.github import Job, Runner
from muster_simulation.jobs.github import SimulatedGitHub

LOOK_EVERY = 2.0
"""Seconds between two looks for a job, and between two signs of life."""


class RunnerProcess:
    def __init__(self, github: SimulatedGitHub, program: str) -> None:
        """`program`: the kit, which is a call of `main` at its end."""
        self._github = github
        self._jit = jit_of(program)

    async def run(self) -> None:
        state = self._github.state
        runner = state.configured(self._jit)
        if runner is None:
            return  # its registration was removed, or another kit replaced it
        job: Job | None = None
        try:
            while job is None:
                if runner.id not in state.runners:
                    return
                state.connect(runner)
                await asyncio.sleep(LOOK_EVERY)
                job = state.take(runner, 0.0) if runner.id in state.runners else None
            self._github.begins(runner, job)
            await self._work(runner, job)
        except asyncio.CancelledError:
            runner.session = False
            if job is not None:
                self._github.ends(job, "failure")
            raise

    async def _work(self, runner: Runner, job: Job) -> None:
        now = self._github.state.now
        end = now() + float(job.script)
        while (left := end - now()) > 0.0 and self._github.works(job):
            runner.seen_at = now()
            await asyncio.sleep(min(left, LOOK_EVERY))
        self._github.ends(job, "success")


def jit_of(program: str) -> str:
    """Return the just-in-time configuration that a kit's program was given."""
    call = program.rstrip().splitlines()[-1]
    given = ast.literal_eval(call.removeprefix("main(").removesuffix(")"))
    return str(given["jit"])
