"""One side goes away in the middle of it: the server, for a while or for good, or the client."""

import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import Future

import httpx
import pytest

from muster.client import calls
from muster.wire.operations import Operation
from tests.e2e.site import Body, Site, alive, until

COUNTS = 'i=0; while [ $i -lt 30 ]; do echo "line $i of $MUSTER_INDEX"; i=$((i+1)); sleep 0.2; done; exit 7'
"""Takes its six seconds."""


def _counted(index: int) -> bytes:
    return b"".join(b"line %d of %d\n" % (line, index) for line in range(30))


def _bodies(site: Site, run: Operation) -> list[Body]:
    return [site.body(node) for node in site.members(site.child(run))]


@pytest.mark.parametrize("manner", ["killed", "frozen"])
def test_commands_outlive_the_servers_absence_and_their_results_arrive(site: Site, manner: str) -> None:
    run = site.run("sh", "-c", COUNTS, count=2)
    site.commands_in("running", run, 2)
    bodies = _bodies(site, run)
    if manner == "killed":
        site.kill()
    else:
        site.send(signal.SIGSTOP)
    until(lambda: not any(body.jobs for body in bodies), "the commands to end without a server")
    if manner == "killed":
        site.start()
    else:
        site.send(signal.SIGCONT)
    end = site.ended(run)
    assert (end.status, end.result) == ("failed", "exit 7")
    commands = sorted(site.commands(end), key=lambda command: command.ordinal)
    assert [site.output(command) for command in commands] == [_counted(0), _counted(1)]
    assert len(site.nodes("idle")) == 2


def test_sigterm_lets_requests_finish_and_operations_go_on_after_the_next_start(site: Site) -> None:
    run = site.run("sh", "-c", COUNTS)
    site.commands_in("running", run)
    halfway, go_on = threading.Event(), threading.Event()

    def slowly() -> Iterator[bytes]:
        yield b"x" * 100_000
        halfway.set()
        assert go_on.wait(30)
        yield b"y" * 100_000

    def upload() -> httpx.Response:
        with site.http() as http:
            return http.put("/api/v1/blobs", content=slowly())

    uploading: Future[httpx.Response] = site.soon(upload)
    assert halfway.wait(30)
    site.send(signal.SIGTERM)
    until(lambda: _refuses(site), "it to take no new connections")
    go_on.set()
    answer = uploading.result(30)
    assert answer.status_code in (200, 201) and answer.json()["size"] == 200_000
    assert site.gone() == 0
    site.start()
    end = site.ended(run)
    assert (end.status, end.result) == ("failed", "exit 7")
    assert site.output(site.commands(end)[0]) == _counted(0)


def _refuses(site: Site) -> bool:
    try:
        with site.http() as http:
            http.get("/healthz")
    except httpx.TransportError:
        return True
    return False


CLIENT = """
import sys
from muster.client import SyncClient, calls
from muster.domain.command import Execution
from muster.domain.requests import ProvisionRequest
client = SyncClient(sys.argv[1], sys.argv[2])
request = ProvisionRequest(template="ci", count=1, run="orphaned")
operation = client.send(calls.run(request, Execution(argv=("sh", "-c", "echo begun; sleep 2; echo done"))))
print(operation.operation_id, flush=True)
for _ in client.stream(calls.watch(operation.operation_id)):
    pass
"""


def test_a_run_outlives_its_client(site: Site) -> None:
    token = (site.data / "admin.token").read_text().strip()
    with subprocess.Popen(
        [sys.executable, "-c", CLIENT, site.url, token], stdout=subprocess.PIPE, text=True
    ) as client:
        assert client.stdout is not None
        operation = site.operation(client.stdout.readline().strip())
        site.commands_in("running", operation)
        client.kill()
    end = site.succeeded(operation)
    assert [site.output(command) for command in site.commands(end)] == [b"begun\ndone\n"]
    assert len(site.nodes("idle")) == 1


def test_cancelling_a_run_kills_everything_that_it_started(site: Site) -> None:
    run = site.run("sh", "-c", "trap '' TERM; setsid sleep 1000 & (sleep 1000 &) ; sleep 1000")
    site.commands_in("running", run)
    (body,) = _bodies(site, run)
    until(lambda: len(body.jobs) >= 4, "the whole tree")
    jobs = body.jobs
    site.ask(calls.cancel(run.operation_id))
    end = site.ended(run)
    assert end.status == "cancelled"
    assert alive(jobs) == []
    assert body.jobs == []
    assert [node.state for node in site.nodes()] == ["idle"]


def test_a_second_server_on_the_same_data_directory_says_who_has_it_and_harms_nothing(site: Site) -> None:
    held = site.succeeded(site.provision(1))
    said = site.refused()
    assert said.startswith(
        f"error: cannot use the data directory {site.data}: another server holds it ({site.url})"
    )
    assert "stop it first, or choose another with --data-dir" in said
    assert {node.state for node in site.members(held)} == {"running"}
    assert site.release(held).status == "succeeded"


def test_an_absence_longer_than_every_limit_calls_no_node_offline_and_fails_no_boot(site: Site) -> None:
    """The boot ends after its deadline and all fall stale, while no server is there to hear or to judge."""
    held = site.succeeded(site.provision(2, run="held"))
    site.template("slow", boot_script="sleep 11\n", provision_timeout=10.0)
    booting = site.ask(calls.provision(site.request(1, run="late", template="slow")))
    (node,) = until(lambda: site.nodes("created", template="slow"), "a node that boots")
    body = site.body(node)
    until(lambda: body.jobs, "its boot script")
    site.kill()
    until(lambda: not body.jobs, "its boot to end without a server")
    site.start()
    site.succeeded(booting)
    assert {each.state for each in site.members(held)} == {"running"}
    said = [(event.entity, event.name) for event in site.feed()]
    assert not {("health", "offline"), ("node", "fail"), ("node", "condemn")} & set(said)
    assert site.release(held).status == "succeeded"
