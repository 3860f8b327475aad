"""Nodes on EC2, the whole way: fleet, user data, join, attach, command, release, warm reuse, the end.

Real server, real SDK, real user data and agents; the EC2 is ours, and fails when it is told to.
"""

import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from fakes.ec2 import Boot, FakeEc2
from fakes.ec2.machines import readable, sandbox_works
from muster.client import calls
from tests.e2e.cloud import CloudSite, config
from tests.e2e.site import Site, until

pytestmark = pytest.mark.skipif(not sandbox_works(), reason="instances need bubblewrap to boot")


BOOT_AND_GRACE = 2 * 720 + 120 + 300 + 60
"""Seconds that the switch gives a machine that was never heard."""


def uptime() -> float:
    return float(Path("/proc/uptime").read_text().split()[0])


def reasons(site: Site) -> list[str]:
    return [str(each.reason) for each in site.nodes("terminating", "terminated")]


@pytest.fixture(scope="module")
def fake() -> Iterator[FakeEc2]:
    with FakeEc2() as fake:
        yield fake


@pytest.fixture
def cloud(make_site: Callable[..., Site], fake: FakeEc2) -> CloudSite:
    fake.renew()
    cloud = CloudSite(make_site(config=config(fake)).start(), fake)
    cloud.template()
    return cloud


def test_a_server_without_its_regions_certificate_refuses_to_start_and_names_the_setting(
    make_site: Callable[..., Site], fake: FakeEc2
) -> None:
    site = make_site("bare", config=config(fake).partition("[ec2.certificates]")[0])
    assert "set ec2.certificates.eu-west-1" in site.refused()
    site.reconfigure(config(fake))


def test_machines_are_made_used_kept_warm_and_ended(cloud: CloudSite) -> None:
    site = cloud.site
    cold = site.succeeded(site.provision(2, run="cold"))
    machines = sorted(each.id for each in cloud.there())
    assert {each.zone for each in cloud.there()} == {"eu-west-1a", "eu-west-1b"}
    for each in cloud.there():
        assert each.tags["muster:operation"] == cold.operation_id
    site.release(cold)

    run = site.succeeded(site.run("sh", "-c", "echo $MUSTER_RUN", count=2, run="warm"))
    assert [site.output(each) for each in site.commands(run)] == [b"warm\n"] * 2
    assert sorted(each.id for each in cloud.there()) == machines, "the same machines, and no others"
    assert cloud.fake.counted("CreateFleet") == 1

    cloud.template(idle_timeout=1.0, boot_script="exit 0")
    for member in cold.members:
        assert site.node_in("terminated", member.node_id).reason == "retired"
    assert not cloud.there()


def test_a_boot_script_comes_with_the_join_and_its_failure_is_told(cloud: CloudSite) -> None:
    site = cloud.site
    cloud.template("broken", boot_script="echo no such package >&2; exit 3")
    failed = site.provision(1, template="broken")
    assert failed.error is not None and failed.error.reason == "boot_script_failed"
    made = cloud.fake.instances(there=False)
    (data,) = [each.data["UserData"] for each in made if each.tags["muster:template"] == "broken"]
    assert "no such package" not in readable(data)
    until(lambda: not cloud.there(), "the machine to be ended")


def test_part_of_a_fleet_is_given_back_although_ends_are_slow_and_fail_at_first(cloud: CloudSite) -> None:
    cloud.fake.faults.capacity = 2
    cloud.fake.faults.termination = 1.0
    cloud.fake.faults.fail("TerminateInstances", "InternalError", status=500)
    failed = cloud.site.provision(3)
    assert failed.error is not None and failed.error.reason == "capacity"
    assert "InsufficientInstanceCapacity" in failed.error.message
    until(lambda: not cloud.there(), "what came to be given back")
    until(lambda: not cloud.site.nodes(), "their records to say so")


def test_spot_falls_back_to_on_demand_and_a_notice_drains_the_node(cloud: CloudSite) -> None:
    site = cloud.site
    cloud.fake.faults.spot_capacity = 1
    cloud.template("mixed", usage=cloud.spot_first)
    one = site.succeeded(site.provision(1, run="spot", template="mixed"))
    other = site.succeeded(site.provision(1, run="other", template="mixed"))
    assert [site.members(each)[0].usage_class for each in (one, other)] == ["spot", "on-demand"]

    (node,) = site.members(one)
    cloud.fake.interrupt(node.machine_id, seconds=15.0)
    until(lambda: site.node(node.id).drain, "the notice to arrive")
    told = [each for each in site.feed() if each.name == "interrupted"]
    assert [each.entity_id for each in told] == [node.id]
    assert site.node_in("terminated", node.id).reason == "interrupted"
    site.release(other)


def test_lost_replies_and_throttling_end_in_exactly_what_was_asked_for(cloud: CloudSite) -> None:
    cloud.fake.faults.lag = 1.0
    cloud.fake.faults.lose("CreateFleet")
    cloud.fake.faults.throttle("CreateFleet")
    operation = cloud.site.succeeded(cloud.site.provision(2))
    assert len(cloud.there()) == len(operation.members) == 2
    cloud.site.release(operation)


def test_a_server_killed_before_it_heard_the_answer_ends_with_what_was_asked_for(cloud: CloudSite) -> None:
    site = cloud.site
    cloud.fake.faults.hold("CreateFleet")
    asked = site.ask(calls.provision(site.request(2)))
    until(lambda: len(cloud.there()) == 2, "the fleet to be made")
    site.kill()
    cloud.fake.let_go()
    site.start()
    operation = site.succeeded(asked)
    assert sorted(each.machine_id for each in site.members(operation)) == sorted(
        each.id for each in cloud.there()
    )
    site.release(operation)


def test_what_a_dead_server_asked_for_and_no_run_wants_any_more_is_gone_after_the_window(
    cloud: CloudSite,
) -> None:
    site = cloud.site
    cloud.fake.faults.lag = 2.0
    cloud.fake.faults.hold("CreateFleet")
    asked = site.ask(calls.provision(site.request(2, timeout=3.0)))
    until(lambda: len(cloud.there()) == 2, "the fleet to be made")
    site.kill()
    cloud.fake.let_go()
    cloud.fake.faults.fail("CreateFleet", "InternalError", status=500, times=1000)
    site.start()
    assert site.ended(asked).status == "failed"
    until(lambda: not cloud.there(), "the machines to be found and ended")


def test_a_machine_that_dies_never_joins_or_joins_twice_is_no_node(cloud: CloudSite) -> None:
    site = cloud.site
    cloud.template("hasty", provision_timeout=4.0, max_provision_timeout=4.0, rescue_window=0.0)
    cloud.fake.faults.boots.append(Boot.NEVER)
    silent = site.provision(1, template="hasty")
    assert silent.error is not None and silent.error.reason == "boot_timeout"

    cloud.fake.faults.boots.append(Boot.TWICE)
    site.ask(calls.provision(site.request(1, run="twice")))
    until(lambda: "duplicate_join" in reasons(site), "the second one to be refused")

    cloud.template("slow", boot_script="sleep 600")
    dies = site.ask(calls.provision(site.request(1, run="dies", template="slow")))
    (node,) = until(lambda: [each for each in site.nodes("created") if each.phase], "it to boot")
    cloud.fake.kill(node.machine_id)
    failed = site.ended(dies)
    assert failed.error is not None and failed.error.reason == "machine_gone"


def test_a_machine_whose_server_is_silent_ends_by_its_own_switch(cloud: CloudSite) -> None:
    site = cloud.site
    site.succeeded(site.provision(1))
    (machine,) = cloud.there()
    switch = cloud.disk(machine) / "until"
    assert float(switch.read_text()) > uptime() + BOOT_AND_GRACE, "the server's word moved it on"
    site.send(signal.SIGSTOP)
    try:
        switch.write_text(f"{uptime():.0f}\n")
        until(lambda: not machine.there, "the switch to end the machine")
    finally:
        site.send(signal.SIGCONT)
    assert "powering off: the dead man's switch" in cloud.consoles()


def test_a_document_of_another_machine_is_refused(cloud: CloudSite) -> None:
    site = cloud.site
    operation = site.succeeded(site.provision(1))
    (machine,) = cloud.there()
    mine = cloud.proof(machine)
    answers = [
        httpx.post(f"{site.url}/api/v1/agent/join", json={"proof": each, "key": "k", "boot_id": "b"})
        for each in (mine[:-8] + "AAAAAAA=", "ec2:AAAA", "nothing", mine)
    ]
    assert [each.status_code for each in answers] == [403] * 4
    assert "identity document" in answers[0].json()["detail"]
    assert "another key" in answers[-1].json()["detail"]
    (member,) = operation.members
    assert site.node_in("terminated", member.node_id).reason == "duplicate_join"
