"""A real server, Azure's own SDKs and a simulated Azure over loopback: killed with -9, cancelled, deleted."""

import json
import os
import signal
import sqlite3
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from muster.client import SyncClient, calls
from muster.config import DataDirectory
from muster.domain.operation import Status
from muster.wire.operations import Operation
from muster_simulation.arm import Arm, Fault, Paces
from muster_simulation.arm.faults import Verb
from muster_simulation.arm.server import ArmServer
from muster_simulation.demo_aks import CONFIG, SCOPE, TEMPLATE
from tests.cli.terminal import Terminal
from tests.e2e.site import until

SLOW = Paces(create=2.0, pool=0.5, abort=0.3, delete=0.5, group_delete=0.3, principal=1.0)


class Server:
    """One data directory, and whichever server process holds it at present."""

    def __init__(self, directory: Path, endpoint: str) -> None:
        self.directory = directory
        config = CONFIG.format(endpoint=endpoint, poll_every=0.2, template=TEMPLATE, scope=SCOPE)
        (directory / "muster.toml").write_text(config)
        self._process: subprocess.Popen[str] | None = None
        self.url = ""

    def start(self) -> None:
        environment = {name: value for name, value in os.environ.items() if not name.startswith("MUSTER_")}
        command = [
            sys.executable,
            "-m",
            "muster.cli",
            "serve",
            "--port",
            "0",
            "--data-dir",
            str(self.directory),
        ]
        with (self.directory / "server.log").open("ab") as log:
            self._process = subprocess.Popen(
                [*command, "--output", "json"],
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env=environment,
                cwd=self.directory,
            )
        assert self._process.stdout is not None
        self.url = str(json.loads(self._process.stdout.readline())["url"])

    def end(self, sign: int = signal.SIGKILL) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(sign)
        if self._process is not None:
            self._process.wait(timeout=60.0)
            if self._process.stdout is not None:
                self._process.stdout.close()

    def again(self) -> None:
        self.end()
        self.start()

    def client(self) -> SyncClient:
        return SyncClient(self.url, DataDirectory(self.directory).admin_token())


@pytest.fixture(scope="module")
def arm() -> Arm:
    return Arm(time.monotonic, SLOW)


@pytest.fixture(scope="module")
def server(arm: Arm, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with ArmServer(arm).in_a_thread() as endpoint:
        made = Server(tmp_path_factory.mktemp("clusters"), endpoint)
        made.start()
        try:
            yield made
        finally:
            made.end(signal.SIGTERM)


def ended(client: SyncClient, operation: Operation) -> Operation:
    for _ in client.stream(calls.watch(operation.operation_id)):
        pass
    return client.send(calls.operation(operation.operation_id))


@pytest.mark.timeout(300)  # four servers in a row, on a machine that may be busy
def test_a_server_killed_in_each_step_goes_on_and_makes_one_cluster(arm: Arm, server: Server) -> None:
    before = len(arm.calls)
    with server.client() as client:
        operation = client.send(calls.create_cluster("killed", TEMPLATE))
    for verb in (Verb.PUT_GROUP, Verb.PUT_CLUSTER, Verb.PUT_ASSIGNMENT):
        until(lambda verb=verb: verb in arm.calls[before:], f"{verb}")  # type: ignore[misc]
        server.again()
    with server.client() as client:
        done = ended(client, operation)
        assert done.status is Status.SUCCEEDED, done.error
        assert arm.changed == []
        assert arm.calls[before:].count(Verb.PUT_GROUP) == 1
        assert [cluster.name for cluster in arm.clusters.values()] == ["killed"]
        assert len(arm.assignments) == 1
        gone = ended(client, client.send(calls.delete_cluster("killed")))
        assert gone.status is Status.SUCCEEDED, gone.error
    assert not (arm.clusters or arm.groups or arm.assignments)


def test_the_token_is_in_the_private_store_alone_and_a_cancel_ends_azures_work(
    arm: Arm, server: Server
) -> None:
    arm.paces = Paces(create=600.0, abort=0.3, delete=0.3, group_delete=0.3)
    database = server.directory / "muster.db"
    with server.client() as client:
        operation = client.send(calls.create_cluster("secret", TEMPLATE))

        def kept() -> str:
            with closing(sqlite3.connect(database)) as store:
                rows = store.execute("SELECT token FROM cluster_tokens").fetchall()
            return str(rows[0][0]) if rows else ""

        token = until(kept, "the token")
        server.again()
    with server.client() as client:
        events = client.send(calls.events(limit=1000)).items
        shown = client.send(calls.operation(operation.operation_id))
        detail = client.send(calls.cluster("secret"))
        for told in (events, shown, detail, (server.directory / "server.log").read_text()):
            assert token not in str(told)
        assert stat.S_IMODE(database.stat().st_mode) == 0o600
        client.send(calls.cancel(operation.operation_id))
        done = ended(client, operation)
        assert done.status is Status.CANCELLED
        assert not kept()
    assert Verb.ABORT in arm.calls
    assert not (arm.clusters or arm.groups or arm.assignments)
    arm.paces = SLOW


def test_from_the_command_line(arm: Arm, server: Server) -> None:
    terminal = Terminal(server.directory, {"MUSTER_DATA_DIR": str(server.directory)})
    arm.faults.add(Fault(on=Verb.GET_CLUSTER, hangs=0.1, skip=2))
    made = terminal.muster("clusters", "create", "typed", "-t", TEMPLATE)
    assert made.code == 0, made.err
    assert "Step 3/5 · Creating the AKS cluster (5–10 min)" in made.out
    assert "AKS state: Creating · ARM" in made.out
    assert "✔ cluster typed is ready" in made.out
    assert "\033" not in made.out
    assert "typed" in terminal.muster("clusters").out
    shown = terminal.muster("clusters", "show", "typed").out
    assert "✔ Succeeded · User · 10 × Standard_E16s_v5" in shown
    assert "https://portal.azure.com/" in shown
    assert terminal.muster("clusters", "show", "typed", "-o", "json").json["state"] == "ready"
    again = terminal.muster("clusters", "create", "typed", "-t", TEMPLATE, "-o", "json")
    assert (again.code, again.error["code"]) == (2, "cluster_exists")
    gone = terminal.muster("clusters", "delete", "typed", "--output", "json")
    assert (gone.code, gone.json["status"]) == (0, "succeeded")
    assert terminal.muster("clusters", "show", "nope").code == 2
    assert terminal.muster("clusters", "-o", "json").json == {"items": []}
