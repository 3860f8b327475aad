"""A scale set from its first job to its last runner, in virtual time, with every fault of the service."""

from muster.domain.lifecycle import NodeState
from muster.domain.template import Reuse
from tests.stage import Stage, staged
from tests.stage.scale_sets import SetStage


@staged
async def test_jobs_that_just_say_runs_on_are_served_and_nothing_is_left(stage: Stage) -> None:
    github = await SetStage.listening(stage, reuse=Reuse.NEVER, runner={"max_runners": 3})
    await stage.replica()
    jobs = github.queue(5)
    await github.done(jobs)
    await github.tidy()
    assert github.crowd <= 3
    assert max(github.scale_set.capacities) == 3
    assert github.scale_set.queue == [], "every message was acknowledged"


@staged
async def test_warm_nodes_serve_job_after_job(stage: Stage) -> None:
    github = await SetStage.listening(stage, runner={"max_runners": 2}, idle_timeout=3600.0)
    await stage.warm(2)
    await stage.replica()
    await github.done(github.queue(6))
    await github.tidy(idle=2)
    assert len(await stage.nodes()) == 2, "no machine was made"
    assert len(await stage.nodes(NodeState.IDLE)) == 2
