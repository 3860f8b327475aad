"""GitHub for scenarios: without a network, in virtual time, with nodes whose kits do what real ones do."""

import ast
import asyncio
import base64
import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from fakes.github import GitHubState, WorldTransport
from muster.domain.ids import AssignmentId, NodeId
from muster.domain.lifecycle import NodeState
from muster.domain.node import Node
from muster.domain.operation import Operation
from muster.enrolment.reports import Report
from muster.integrations.github.parts import Account, GitHub, JobServing, duties
from muster.integrations.github.requests import JOB, SET_RUNNER, WORKFLOW, Workflow, default_label
from muster.integrations.github.runtime import RunnerPackage
from muster.integrations.github.set_listener import SetListeners
from muster.integrations.github.tables import TEMPLATE
from muster.ports.duties import Delivery, DutyContext, HookAnswer
from muster.ports.runtime import Kit
from muster_simulation.github.state import Job, Run, Runner
from muster_simulation.github.webhooks import SECRET, event_of, signed
from tests.harness.agents import new_enrolment
from tests.harness.harness import Harness, Replica

REPOSITORY = "acme/shop"
API = "http://github.test"


def given(kit: Kit) -> dict[str, Any]:
    """What the program of a kit was given."""
    call = kit.program.rstrip().splitlines()[-1]
    return dict(ast.literal_eval(call.removeprefix("main(").removesuffix(")")))


def context(harness: Harness) -> DutyContext:
    """For a duty that asks for no operation."""
    no_desk: Any = None
    return DutyContext(
        store=harness.store,
        jobs=harness.store.jobs,
        messages=harness.store.messages,
        access=harness.ports.access,
        clock=harness.clock,
        ids=harness.ports.ids,
        wakeups=harness.ports.wakeups,
        settings=harness.settings,
        desk=no_desk,
        owner="replica-test",
    )


class GitHubHarness:
    transport: WorldTransport
    again: Callable[[], GitHub]
    """Makes what another process would have of GitHub."""
    runners_per_minute = 100_000

    def __init__(self, harness: Harness, github: GitHub, world: GitHubState, *, installation_id: str) -> None:
        self.harness = harness
        self.github = github
        self.world = world
        self.watched: Callable[[Any], Any] = lambda registry: registry
        """What duties see of the registry."""
        self.serving = JobServing(
            secret=SECRET,
            repositories=[REPOSITORY, "acme/*"],
            installation_id=installation_id,
            registry=github.registry,
        )
        self.connects = True
        """False: runners start and are never heard of."""
        harness.ports = replace(
            harness.ports,
            runtimes={"github": github.runtime},
            duties=(lambda given: duties(given, self.watched(github.registry), self.serving),),
            # Each replica has its own: the dead release no lock.
            standing=(lambda given: [SetListeners(given, self.again().directory)],),
            hooks=(self.serving.hooks,),
            request_parts=(WORKFLOW, JOB, SET_RUNNER),
            template_parts=(TEMPLATE,),
        )
        harness.enrolment = new_enrolment(harness.ports, harness.settings)
        harness.agents.enrolment = harness.enrolment
        harness.agents.host = self.host
        harness.keep(asyncio.create_task(harness.enrolment.heartbeats.run()))

    @classmethod
    async def set(cls, harness: Harness, **template: Any) -> "GitHubHarness":
        world = GitHubState(harness.clock.now, url=API)
        transport = WorldTransport(world, sleep=harness.clock.sleep)
        installation = await harness.store.installation()

        def again() -> GitHub:
            return GitHub(
                Account(url=API, api_url=API, token="a-personal-token"),
                RunnerPackage(path="/opt/runner"),
                harness.clock,
                installation_id=installation.id,
                transport=transport,
                runners_per_minute=cls.runners_per_minute,
            )

        await harness.template(runtime="github", **template)
        made = cls(harness, again(), world, installation_id=installation.id)
        made.transport, made.again = transport, again
        return made

    async def until_registered(self) -> None:
        async def registered() -> bool:
            return bool(self.runners())

        await self.harness.until(registered)

    async def fail_its_job(self, run: Run, *labels: str, nodes: int = 1, within: float = 60.0) -> None:
        """Let a job of each label fail and the run end, and wait until its nodes are given back."""
        for label in labels or (f"{run.id}-1",):
            job = self.world.queue(run, "test", [label])
            job.status, job.conclusion = "completed", "failure"
        self.world.complete(run)
        await self.harness.count(nodes, NodeState.IDLE, within=within)

    def host(self, kit: Kit) -> None:
        """As the runner would: registered if it isn't, and online."""
        told = given(kit)
        if "jit" in told:
            files = json.loads(base64.b64decode(told["jit"]))
            credential = json.loads(base64.b64decode(files[".credentials"]))["data"]
            found = self.world.holder(credential)
            assert found is not None
            runner = found
        else:
            words = dict(zip(told["arguments"], told["arguments"][1:], strict=False))
            scope, _ = self.world.registrations[told["token"]]
            labels = words["--labels"].split(",")
            if "--no-default-labels" not in told["arguments"]:
                labels = ["self-hosted", "Linux", "X64", *labels]
            runner = self.world.register(scope, words["--name"], labels, ephemeral=False)
        if self.connects:
            self.connect(runner)

    def connect(self, runner: Runner) -> None:
        """For good: there is no poll here."""
        self.world.connect(runner)
        runner.seen_at = float("inf")

    async def deliver(self, replica: Replica, job: Job, action: str, **more: Any) -> HookAnswer:
        """GitHub's webhook about a job, as the replica takes it."""
        headers, body = signed({**event_of(job, action), **more})
        return await replica.ask(replica.plane.hooks["github"].take(Delivery(headers=headers, body=body)))

    def take(self, node: Node) -> Job:
        """The node's runner asks for a job and gets one."""
        job = self.world.take(self.runner_of(node), 0.0)
        assert job is not None
        return job

    def begin(self) -> Run:
        return self.world.begin(REPOSITORY)

    async def provision(self, replica: Replica, run: Run, count: int = 1, **more: Any) -> Operation:
        return await replica.provision(count, **asked(run, **more))

    def runners(self) -> list[Runner]:
        return self.world.of(REPOSITORY)

    def runner_of(self, node: Node) -> Runner:
        return next(each for each in self.runners() if each.name.endswith(str(node.assignment_id)))

    async def job_done(self, node: Node) -> None:
        """The one job of an ephemeral runner is over: GitHub takes it out, its program ends, and so on."""
        self.world.remove(self.runner_of(node))
        await self.detached(node)

    async def detached(self, node: Node) -> None:
        report = Report(detached=AssignmentId(node.assignment_id or ""))
        await self.harness.enrolment.report(NodeId(node.id), report)


def asked(run: Run, *, label: str | None = None, **more: Any) -> dict[str, Any]:
    workflow = Workflow(
        repository=run.repository,
        run_id=run.id,
        attempt=run.attempt,
        label=label or default_label(run.id, run.attempt),
    )
    return {"run": workflow.run, "owner": run.repository, "tables": {"workflow": workflow}, **more}
