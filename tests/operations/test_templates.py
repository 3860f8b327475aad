"""Templates become current: refused, outfitted, and renewed by a server that brings something else."""

from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Any

import pytest

from muster.domain.errors import InvalidRequest
from muster.domain.lifecycle import NodeState
from muster.domain.reasons import Reason
from muster.domain.template import (
    POOL_KEEPING,
    RESOURCE_CLASSES,
    Effect,
    Reuse,
    Template,
    TemplateSpec,
    UsageClass,
    planned,
)
from muster.integrations.github.runners import RunnerSpec
from muster.integrations.github.tables import TEMPLATE
from muster.integrations.process.isolation_report import Report
from muster.integrations.process.parts import unmet_requirement
from muster.integrations.process.sandbox import Isolation
from muster.integrations.process.tables import Demand, Home, ProcessSpec
from muster.operations.templates import TemplateDesk
from muster.serve import outfit
from tests.harness import Harness, with_harness
from tests.harness.github import GitHubHarness

SPEC = TemplateSpec(name="ci", provider="cloud", resource_class="small")


def desk(harness: Harness, agent: str = "the first agent") -> TemplateDesk:
    """Of a server that brings this agent."""
    return TemplateDesk(replace(harness.ports, outfit=lambda spec: outfit(spec, lambda _spec: agent, None)))


@with_harness
async def test_equal_content_keeps_its_revision_while_the_server_brings_the_same(harness: Harness) -> None:
    templates = desk(harness)
    first = await templates.apply(SPEC)
    assert first.spec.outfit and replace(first.spec, outfit="", tables={}) == SPEC
    assert await templates.apply(SPEC) == first
    assert await templates.renew() == []


@with_harness
async def test_warm_nodes_of_an_older_agent_are_retired(harness: Harness) -> None:
    template = await harness.template(min_idle=1)
    await desk(harness).apply(template.spec)
    await harness.replica()
    (warm,) = await harness.count(1, NodeState.IDLE)
    await desk(harness).renew()
    await harness.pass_time(60)
    assert (await harness.node(warm.id)).state is NodeState.IDLE

    (renewed,) = await desk(harness, "a newer agent").renew(actor="the server")
    assert renewed.revision > warm.revision
    (ended,) = await harness.count(1, NodeState.TERMINATED)
    assert (ended.id, ended.reason) == (warm.id, Reason.RETIRED)
    (fresh,) = await harness.count(1, NodeState.IDLE)
    assert fresh.revision == renewed.revision


@with_harness
async def test_what_an_operator_applies_meanwhile_is_not_overwritten(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    await desk(harness).apply(SPEC)
    read = harness.store.templates

    async def and_then_it_is_applied_anew() -> Sequence[Template]:
        found = await read()
        await desk(harness, "a newer agent").apply(replace(SPEC, max_nodes=7))
        return found

    monkeypatch.setattr(harness.store, "templates", and_then_it_is_applied_anew)
    assert await desk(harness, "a newer agent").renew() == []
    assert (await harness.store.template("ci")).spec.max_nodes == 7


@pytest.mark.parametrize(
    ("runner", "reuse", "rule"),
    [
        (RunnerSpec(scope="acme"), Reuse.SAME_OWNER, "its runners serve all of acme"),
        (RunnerSpec(group="big"), Reuse.SAME_OWNER, "runner.scope that names its organisation"),
        (RunnerSpec(group="big"), Reuse.NEVER, "repositories have no groups"),
        (RunnerSpec(scope="acme"), Reuse.NEVER, ""),
        (RunnerSpec(scope="acme", group="big"), Reuse.ALWAYS, ""),
        (RunnerSpec(scope="acme/shop"), Reuse.ALWAYS, ""),
    ],
)
@with_harness
async def test_runners_that_would_meet_jobs_of_strangers_are_refused_when_they_are_applied(
    harness: Harness, runner: RunnerSpec, reuse: Reuse, rule: str
) -> None:
    await GitHubHarness.set(harness)
    before = await harness.store.templates()
    spec = replace(SPEC, runtime="github", tables={"runner": runner}, reuse=reuse)
    if not rule:
        await desk(harness).apply(spec)
        return
    with pytest.raises(InvalidRequest, match=rule):
        await desk(harness).apply(spec)
    assert await harness.store.templates() == before


@pytest.mark.parametrize(
    ("needs", "words"),
    [
        ({"provider": "clud"}, r"provider = 'clud': .*not configured on this server; did you mean cloud\?"),
        (
            {"provider": "nonsense"},
            r"provider = 'nonsense': .*; it has aks, cloud; .*install muster-nonsense",
        ),
        ({"runtime": "github", "reuse": Reuse.NEVER}, "runtime = .*: see docs/github.md"),
    ],
)
@with_harness
async def test_a_template_that_this_server_can_make_nothing_from_is_refused(
    harness: Harness, needs: dict[str, Any], words: str
) -> None:
    ports = replace(harness.ports, setup={"github": "see docs/github.md"})
    with pytest.raises(InvalidRequest, match=words):
        await TemplateDesk(ports).apply(replace(SPEC, **needs))
    assert not await harness.store.templates()


@with_harness
async def test_a_retired_template_keeps_what_runs_and_nothing_else(harness: Harness) -> None:
    await harness.template(min_idle=1, max_nodes=2)
    replica = await harness.replica()
    running = await harness.succeeded(await replica.provision(1, run="first"))
    await harness.count(1, NodeState.IDLE)

    retired = await TemplateDesk(harness.ports).retire("ci", actor="ann")
    assert await TemplateDesk(harness.ports).retire("ci") == retired
    (gone,) = await harness.count(1, NodeState.TERMINATED)
    assert gone.reason is Reason.RETIRED
    await harness.pass_time(120)
    assert [node.id for node in await harness.nodes(NodeState.RUNNING)] == [running.members[0].node_id]
    with pytest.raises(InvalidRequest, match="was retired"):
        await replica.provision(1, run="second")

    await harness.succeeded(await replica.release(running.id))
    await harness.nothing_is_left()


@with_harness
async def test_who_waits_for_a_template_that_is_retired_hears_of_it(harness: Harness) -> None:
    await harness.template(max_nodes=1)
    replica = await harness.replica()
    await harness.succeeded(await replica.provision(1, run="first"))
    waiting = await replica.provision(1, run="second", queue_timeout=600.0)
    await harness.pass_time(10)

    await TemplateDesk(harness.ports).retire("ci")
    ended = await harness.ended(waiting)

    assert ended.verdict is not None
    assert ended.verdict.reason is Reason.RETIRED
    assert "ci was retired" in ended.verdict.message


@with_harness
async def test_a_retired_template_comes_back_when_it_is_applied(harness: Harness) -> None:
    template = await harness.template(min_idle=1)
    await TemplateDesk(harness.ports).retire("ci")
    await harness.replica()
    await harness.pass_time(60)
    assert not await harness.nodes(NodeState.IDLE)

    assert (await TemplateDesk(harness.ports).apply(template.spec)).revision == template.revision + 2
    await harness.count(1, NodeState.IDLE)


# --- what nodes are made from, and how the pool is kept -------------------------------------------

KEPT: dict[str, Any] = {
    "max_nodes": 7,
    "min_idle": 1,
    "replacements": 2,
    "provision_timeout": 99.0,
    "max_provision_timeout": 999.0,
    "stall_after": 99.0,
    "learn": False,
    "attach_timeout": 9.0,
    "max_runtime": 99.0,
    "idle_timeout": 999.0,
    "rescue_window": 9.0,
}


@with_harness
async def test_a_change_of_how_the_pool_is_kept_replaces_no_node_and_forgets_no_boot(
    harness: Harness,
) -> None:
    await desk(harness).apply(replace(SPEC, min_idle=2))
    await harness.replica()
    warm = await harness.count(2, NodeState.IDLE)
    learned = await harness.store.boots("ci", 1)
    assert len(learned) == 2
    adjusted = await desk(harness).apply(replace(SPEC, **{**KEPT, "min_idle": 3}), actor="ops")
    assert adjusted.revision == 1
    await harness.count(3, NodeState.IDLE)
    await harness.pass_time(900.0)
    still = {node.id for node in await harness.nodes(NodeState.IDLE)}
    assert {node.id for node in warm} < still and len(still) == 3
    assert await harness.nodes(NodeState.TERMINATING, NodeState.TERMINATED) == []
    assert tuple(await harness.store.boots("ci", 1))[:2] == tuple(learned)
    (event,) = await harness.events("ci", "adjusted")
    assert event.actor == "ops" and "min_idle 2 → 3" in event.detail


@with_harness
async def test_a_new_minimum_holds_for_nodes_that_are_there(harness: Harness) -> None:
    await desk(harness).apply(replace(SPEC, min_idle=3, idle_timeout=100.0))
    await harness.replica()
    await harness.count(3, NodeState.IDLE)
    await desk(harness).apply(replace(SPEC, min_idle=1, idle_timeout=100.0))
    await harness.count(1, NodeState.IDLE, within=300.0)
    gone = await harness.nodes(NodeState.TERMINATING, NodeState.TERMINATED)
    assert [node.reason for node in gone] == 2 * [Reason.IDLE_TIMEOUT]


@pytest.mark.parametrize("field", [each.name for each in fields(TemplateSpec) if each.name != "name"])
def test_each_key_is_of_one_kind_and_a_plan_says_what_its_change_costs(field: str) -> None:
    others: dict[str, Any] = {
        "provider": "other",
        "resource_class": "large",
        "classes": (replace(RESOURCE_CLASSES["large"], cpu=3),),
        "runtime": "github",
        "boot_script": "true",
        "usage": (UsageClass.SPOT,),
        "instance_types": ("m*",),
        "reuse": Reuse.ALWAYS,
        "retired": True,
        "outfit": "another",
    }
    before = Template(spec=SPEC, revision=4, version=9, applied_at=0.0)
    if field in ("tables", "cluster"):
        assert field not in POOL_KEEPING
        return
    given: dict[str, Any] = {field: KEPT.get(field, others.get(field))}
    changed = replace(SPEC, **given)
    plan = planned(before, changed, warm=2, boots=57)
    (change,) = plan.fields
    kept = field in KEPT
    assert (change.field, change.remakes) == (field, not kept)
    assert plan.effect is (Effect.ADJUSTED if kept else Effect.REVISION)
    assert (plan.revision, plan.current_revision) == (4 + (not kept), 4)
    assert (plan.warm_nodes_replaced, plan.boots_forgotten) == ((0, 0) if kept else (2, 57))
    assert set(KEPT) == set(POOL_KEEPING)


@with_harness
async def test_a_plan_names_everything_that_would_be_refused_and_changes_nothing(harness: Harness) -> None:
    made = TemplateDesk(replace(harness.ports, template_parts=(TEMPLATE,)))
    await made.apply(SPEC)
    runner = RunnerSpec(scope="acme")
    wrong = replace(SPEC, provider="clud", runtime="github", tables={"runner": runner})
    plan = await made.plan(wrong)
    assert [error.field for error in plan.errors] == ["runner.group", "provider"]
    assert (await made.plan(SPEC)).effect is Effect.NONE
    assert (await made.plan(replace(SPEC, name="new"))).effect is Effect.NEW
    assert (await harness.store.template("ci")).version == 1


@with_harness
async def test_reuse_by_every_owner_is_refused_where_nothing_isolates_them(harness: Harness) -> None:
    ports = replace(harness.ports, unisolated={SPEC.provider: "bubblewrap is not installed"})
    for allowed in (Reuse.NEVER, Reuse.SAME_OWNER):
        await TemplateDesk(ports).apply(replace(SPEC, reuse=allowed))
    with pytest.raises(InvalidRequest, match=r"has none here \(bubblewrap is not installed\): use"):
        await TemplateDesk(ports).apply(replace(SPEC, reuse=Reuse.ALWAYS))


@with_harness
async def test_a_template_that_demands_a_sandbox_or_an_overlay_is_refused_where_there_is_none(
    harness: Harness,
) -> None:
    local = replace(SPEC, provider="process")
    ports = replace(harness.ports, providers={"process": harness.ports.providers[SPEC.provider]})
    demanding = replace(local, tables={"process": ProcessSpec(isolation=Demand.SANDBOX)})
    writing = replace(local, tables={"process": ProcessSpec(home=Home.OVERLAY)})
    for spec in (demanding, writing):
        await TemplateDesk(ports).apply(spec)
    none = Report(
        isolation=Isolation.NONE, notice="bubblewrap fails here", no_overlay="no such filesystem", facts=()
    )
    bare = replace(ports, lacks=(lambda spec: unmet_requirement(spec, "process", none),))
    await TemplateDesk(bare).apply(local)
    with pytest.raises(InvalidRequest, match=r"demands one, and process has none here \(bubblewrap fails"):
        await TemplateDesk(bare).apply(demanding)
    with pytest.raises(InvalidRequest, match=r"can't be mounted here \(no such filesystem\): use"):
        await TemplateDesk(bare).apply(writing)
