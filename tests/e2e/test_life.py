"""The plain life of nodes: handed out, given back, used again, and ended when no run wants them."""

from collections.abc import Callable

from tests.e2e.site import BRISK, Site, until


def test_released_machines_are_used_again(site: Site) -> None:
    first = site.provision(3, run="first")
    machines = sorted(node.machine_id for node in site.members(first))
    assert site.release(first).status == "succeeded"
    assert {node.state for node in site.nodes()} == {"idle"}
    second = site.provision(3, run="second")
    assert sorted(node.machine_id for node in site.members(second)) == machines
    assert len(site.slots()) == 3
    site.release(second)


def test_an_idle_machine_ends_when_its_time_is_over(site: Site) -> None:
    site.template("brief", idle_timeout=1.0)
    operation = site.provision(2, template="brief")
    bodies = [site.body(node) for node in site.members(operation)]
    site.release(operation)
    for member in operation.members:
        assert site.node_in("terminated", member.node_id).reason == "idle_timeout"
    until(lambda: not any(body.tree() for body in bodies), "its processes to end", 5.0)


def test_a_warm_minimum_is_kept_and_renewed(site: Site) -> None:
    site.template("warm", min_idle=2, max_nodes=4)

    def warm() -> bool:
        return len(site.nodes("idle", template="warm")) == 2

    until(warm, "two warm nodes")
    operation = site.provision(2, template="warm")
    until(warm, "two more warm nodes")
    site.release(operation)


def test_warm_machines_of_one_template_make_way_for_another_where_no_more_fit(
    make_site: Callable[..., Site],
) -> None:
    site = make_site(config=f"{BRISK}[process]\ncapacity = 2\n").start()
    site.template("one")
    site.template("two")
    first = site.provision(2, run="first", template="one")
    site.release(first)
    assert len(site.nodes("idle", template="one")) == 2
    second = site.provision(1, run="second", template="two")
    assert second.status == "succeeded", second.error
    found = [site.node(member.node_id) for member in first.members]
    (ended,) = [node for node in found if node.state != "idle"]
    assert ended.reason == "capacity"
    assert len(site.nodes("idle", template="one")) == 1
    site.release(second)
