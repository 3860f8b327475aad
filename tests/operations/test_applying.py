"""Templates become current: refused, outfitted, and renewed by a server that brings something else."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from muster.domain.errors import InvalidRequest
from muster.domain.lifecycle import NodeState
from muster.domain.reasons import Reason
from muster.domain.template import Reuse, Runtime, Template, TemplateSpec
from muster.domain.workflow import RunnerSpec
from muster.operations.applying import TemplateDesk
from muster.serve import outfit
from tests.stage import Stage, staged
from tests.stage.github import GitHubStage

SPEC = TemplateSpec(name="ci", provider="cloud", resource_class="small")


def desk(stage: Stage, agent: str = "the first agent") -> TemplateDesk:
    """Of a server that brings this agent."""
    return TemplateDesk(replace(stage.ports, outfit=lambda spec: outfit(spec, lambda _spec: agent, None)))


@staged
async def test_equal_content_keeps_its_revision_while_the_server_brings_the_same(stage: Stage) -> None:
    templates = desk(stage)
    first = await templates.apply(SPEC)
    assert first.spec.outfit and replace(first.spec, outfit="") == SPEC
    assert await templates.apply(SPEC) == first
    assert await templates.renew() == []


@staged
async def test_warm_nodes_of_an_older_agent_are_retired(stage: Stage) -> None:
    template = await stage.template(min_idle=1)
    await desk(stage).apply(template.spec)
    await stage.replica()
    (warm,) = await stage.count(1, NodeState.IDLE)
    await desk(stage).renew()
    await stage.pass_time(60)
    assert (await stage.node(warm.id)).state is NodeState.IDLE

    (renewed,) = await desk(stage, "a newer agent").renew(actor="the server")
    assert renewed.revision > warm.revision
    (ended,) = await stage.count(1, NodeState.TERMINATED)
    assert (ended.id, ended.reason) == (warm.id, Reason.RETIRED)
    (fresh,) = await stage.count(1, NodeState.IDLE)
    assert fresh.revision == renewed.revision


@staged
async def test_what_an_operator_applies_meanwhile_is_not_overwritten(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    await desk(stage).apply(SPEC)
    read = stage.store.templates

    async def and_then_it_is_applied_anew() -> Sequence[Template]:
        found = await read()
        await desk(stage, "a newer agent").apply(replace(SPEC, max_nodes=7))
        return found

    monkeypatch.setattr(stage.store, "templates", and_then_it_is_applied_anew)
    assert await desk(stage, "a newer agent").renew() == []
    assert (await stage.store.template("ci")).spec.max_nodes == 7


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
@staged
async def test_runners_that_would_meet_jobs_of_whoever_are_refused_when_they_are_applied(
    stage: Stage, runner: RunnerSpec, reuse: Reuse, rule: str
) -> None:
    await GitHubStage.set(stage)
    before = await stage.store.templates()
    spec = replace(SPEC, runtime=Runtime.GITHUB, runner=runner, reuse=reuse)
    if not rule:
        await desk(stage).apply(spec)
        return
    with pytest.raises(InvalidRequest, match=rule):
        await desk(stage).apply(spec)
    assert await stage.store.templates() == before


@pytest.mark.parametrize(
    ("needs", "words"),
    [
        ({"provider": "clud"}, r"provider = 'clud': .*not configured on this server; did you mean cloud\?"),
        ({"provider": "nonsense"}, r"provider = 'nonsense': .*; it has aks, cloud \(template ci\)"),
        ({"runtime": Runtime.GITHUB, "reuse": Reuse.NEVER}, "runtime = .*: see docs/github.md"),
    ],
)
@staged
async def test_a_template_that_this_server_can_make_nothing_from_is_refused(
    stage: Stage, needs: dict[str, Any], words: str
) -> None:
    with pytest.raises(InvalidRequest, match=words):
        await desk(stage).apply(replace(SPEC, **needs))
    assert not await stage.store.templates()


@staged
async def test_a_retired_template_keeps_what_runs_and_nothing_else(stage: Stage) -> None:
    await stage.template(min_idle=1, max_nodes=2)
    replica = await stage.replica()
    running = await stage.succeeded(await replica.provision(1, run="first"))
    await stage.count(1, NodeState.IDLE)

    retired = await TemplateDesk(stage.ports).retire("ci", actor="ann")
    assert await TemplateDesk(stage.ports).retire("ci") == retired
    (gone,) = await stage.count(1, NodeState.TERMINATED)
    assert gone.reason is Reason.RETIRED
    await stage.pass_time(120)
    assert [node.id for node in await stage.nodes(NodeState.RUNNING)] == [running.members[0].node_id]
    with pytest.raises(InvalidRequest, match="was retired"):
        await replica.provision(1, run="second")

    await stage.succeeded(await replica.release(running.id))
    await stage.nothing_is_left()


@staged
async def test_who_waits_for_a_template_that_is_retired_hears_of_it(stage: Stage) -> None:
    await stage.template(max_nodes=1)
    replica = await stage.replica()
    await stage.succeeded(await replica.provision(1, run="first"))
    waiting = await replica.provision(1, run="second", queue_timeout=600.0)
    await stage.pass_time(10)

    await TemplateDesk(stage.ports).retire("ci")
    ended = await stage.ended(waiting)

    assert ended.verdict is not None
    assert ended.verdict.reason is Reason.RETIRED
    assert "ci was retired" in ended.verdict.message


@staged
async def test_a_retired_template_comes_back_when_it_is_applied(stage: Stage) -> None:
    template = await stage.template(min_idle=1)
    await TemplateDesk(stage.ports).retire("ci")
    await stage.replica()
    await stage.pass_time(60)
    assert not await stage.nodes(NodeState.IDLE)

    assert (await TemplateDesk(stage.ports).apply(template.spec)).revision == template.revision + 2
    await stage.count(1, NodeState.IDLE)
