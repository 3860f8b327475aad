"""Measure a cold provision of 50 EC2 instances: the control plane's own time, and its calls to AWS.

The real provider and SDK talk to the fake over HTTP. Instances are records, and this module plays their
agents. Each joins with its signed document as soon as it has a record, boots and attaches at once. The fake's
own time is subtracted. The floor is the same machines made by one bare call of the SDK, and looked up by one.
"""

import asyncio
import os
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from unittest.mock import patch

from bench import Figure
from bench.claims import home
from fakes.ec2 import FakeEc2
from fakes.ec2.cloud import Instance
from muster.domain.deadlines import Limits, first_dead_man
from muster.domain.operation import Operation, Status
from muster.domain.requests import ProvisionRequest
from muster.domain.template import TemplateSpec
from muster.enrolment.joins import VerifierByProvider
from muster.enrolment.reports import Report
from muster.enrolment.signals import Enrolment
from muster.integrations.ec2.identity import Ec2Verifier
from muster.integrations.ec2.provider import Ec2Provider
from muster.integrations.ec2.tables import Ec2Settings, Ec2Spec
from muster.plane import ControlPlane, Ports
from muster.ports.wakeups import operation_topic
from muster.stores.announcements import announcer
from muster.stores.sql import open_sqlite
from muster.stores.wakeups import LocalWakeups
from muster.system import SystemClock, SystemIds

COUNT = 50
ROUNDS = 5
SPEC = TemplateSpec(
    name="ci",
    provider="ec2",
    max_nodes=COUNT * ROUNDS,
    tables={
        "ec2": Ec2Spec(
            image="ami-00000000000000001", subnets=("subnet-0000000000000000a", "subnet-0000000000000000b")
        )
    },
)
FAKE: Mapping[str, str] = {"AWS_ACCESS_KEY_ID": "fake", "AWS_SECRET_ACCESS_KEY": "fake"}
DESCRIBE_MOST = 2.0


async def measure() -> Sequence[Figure]:
    with (
        tempfile.TemporaryDirectory(prefix="bench-", dir=home()) as folder,
        FakeEc2(boots=False) as fake,
        patch.dict(os.environ, FAKE),
    ):
        setup = _Setup(Path(folder, "muster.db"), fake)
        try:
            return await setup.measured()
        finally:
            await setup.close()


class _Setup:
    def __init__(self, path: Path, fake: FakeEc2) -> None:
        self._fake = fake
        self._clock = SystemClock()
        self._wakeups = LocalWakeups()
        self._store = open_sqlite(path, ids=SystemIds(), after_commit=announcer(self._wakeups))
        self._provider: Ec2Provider | None = None

    async def close(self) -> None:
        if self._provider is not None:
            await self._provider.close()
        await self._store.close()

    async def measured(self) -> Sequence[Figure]:
        plane = await self._plane()
        await self._store.apply_template(SPEC, now=self._clock.now())
        await self._store.limit_installation(COUNT * ROUNDS, now=self._clock.now())
        running = asyncio.create_task(plane.run())
        await self._provisioned(plane, 0)  # the launch template, the image and the subnets are known after it
        calls, began = len(self._fake.calls), time.monotonic()
        took = [await self._provisioned(plane, number) for number in range(1, ROUNDS)]
        asked = [action for _, action in self._fake.calls[calls:]]
        looks = sum(action.startswith("Describe") for action in asked) / (time.monotonic() - began)
        floor = await self._floor()
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        fleets = asked.count("CreateFleet") / len(took)
        return [
            Figure(
                name=f"cold provision of {COUNT} instances, control plane alone",
                value=sorted(took)[len(took) // 2] * 1e3,
                unit="ms",
                floor=floor * 1e3,
                lower_is_better=True,
                note=f"median of {len(took)}, without the fake's own time; floor: one CreateFleet and one"
                " DescribeInstances by the bare SDK",
            ),
            Figure(
                name="CreateFleet calls per provision",
                value=fleets,
                unit="calls",
                limit=1.0,
                lower_is_better=True,
            ),
            Figure(
                name=f"Describe calls while {len(took)} provisions ran",
                value=looks,
                unit="calls/s",
                limit=DESCRIBE_MOST,
                lower_is_better=True,
            ),
        ]

    async def _plane(self) -> ControlPlane:
        installation = await self._store.installation()
        settings = Ec2Settings(
            region=self._fake.region.name,
            installation_id=installation.id,
            servers=("https://muster.example.com",),
            dead_man=lambda spec: first_dead_man(spec, Limits()),
            endpoint_url=self._fake.url,
            certificates={self._fake.region.name: self._fake.signer.pem},
        )
        self._provider = Ec2Provider(settings, self._clock, SystemIds())
        await self._provider.open()
        verifier = Ec2Verifier(settings, self._provider.aws, self._clock)
        ports = Ports(
            store=self._store,
            commands=self._store.commands,
            access=self._store.access,
            overview=self._store.overview,
            clusters=self._store.clusters,
            jobs=self._store.jobs,
            messages=self._store.messages,
            clock=self._clock,
            ids=SystemIds(),
            wakeups=self._wakeups,
            providers={self._provider.name: self._provider},
            verifier=VerifierByProvider({self._provider.name: verifier}),
        )
        return ControlPlane(ports, owner="bench")

    async def _provisioned(self, plane: ControlPlane, number: int) -> float:
        """Return seconds from the request to the end, without those that the fake worked."""
        busy, started = self._fake.busy, time.perf_counter()
        request = ProvisionRequest(template="ci", count=COUNT, run=f"run-{number}")
        operation = await plane.desk.provision(request)
        made = await self._made(operation)
        # Signing is AWS's work, not ours.
        signing = time.perf_counter()
        proofs = [self._proof(self._fake.cloud.instances[each]) for each in made]
        signed = time.perf_counter() - signing
        async with asyncio.TaskGroup() as group:
            for proof in proofs:
                group.create_task(_lives(plane.enrolment, proof))
        ended = await self._ended(operation)
        assert ended.status is Status.SUCCEEDED, ended.verdict
        return time.perf_counter() - started - signed - (self._fake.busy - busy)

    async def _made(self, operation: Operation) -> list[str]:
        """Wait for the records: machines take seconds to start, so their records exist long before they
        join."""
        listener = self._wakeups.listen((operation_topic(operation.id),))
        try:
            while True:
                view = await self._store.view(operation.id)
                assert not view.operation.ended, view.operation.verdict
                nodes = view.nodes
                if len(nodes) == COUNT:
                    return [each.machine_id for each in nodes]
                await listener.wait(5.0)
        finally:
            listener.close()

    def _proof(self, instance: Instance) -> str:
        signed = self._fake.cloud.metadata(instance, "dynamic/instance-identity/rsa2048") or b""
        return "ec2:" + "".join(signed.decode().split())

    async def _ended(self, operation: Operation) -> Operation:
        listener = self._wakeups.listen((operation_topic(operation.id),))
        try:
            operation = await self._store.operation(operation.id)
            while not operation.ended:
                await listener.wait(5.0)
                operation = await self._store.operation(operation.id)
        finally:
            listener.close()
        return operation

    async def _floor(self) -> float:
        assert self._provider is not None
        asked, _ = next(iter(self._fake.cloud.fleets.values()))
        busy, started = self._fake.busy, time.perf_counter()
        answer = await self._provider.aws.call(
            "create_fleet", self._provider.aws.writes, **{**asked, "ClientToken": "floor"}
        )
        made = [each["InstanceIds"][0] for each in answer["Instances"]]
        await self._provider.aws.call("describe_instances", self._provider.aws.reads, InstanceIds=made)
        return time.perf_counter() - started - (self._fake.busy - busy)


async def _lives(enrolment: Enrolment, proof: str) -> None:
    """Act as an agent does, with nothing between it and the enrolment."""
    admission = await enrolment.join(proof, key=proof[-200:], boot_id="boot")
    desired = await enrolment.report(admission.node_id, Report(booted=True))
    assert desired.assignment_id is not None
    await enrolment.report(admission.node_id, Report(attached=desired.assignment_id))
