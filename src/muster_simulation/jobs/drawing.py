"""Draw what a world with jobs begins with: its two templates, and how GitHub behaves."""

from collections.abc import Callable
from random import Random

from muster.domain.template import Reuse, TemplateSpec
from muster_simulation.jobs.faults import GitHubFaults, JobPlan
from muster_simulation.jobs.workflows import LABEL, SET_NAME, SET_REPOSITORY

RERUNS = 1
OFFERED = 0.25
"""The share of worlds in which GitHub offers jobs, as GHES does."""
Maybe = Callable[[float], float]
"""Gives a probability or rate up to this, or 0."""
UpTo = Callable[[float, float], tuple[float, float]]


def draw_jobs(random: Random, faults: GitHubFaults) -> tuple[JobPlan, tuple[TemplateSpec, ...]]:
    most = random.randint(2, 5)
    runners = _template(
        random,
        "runners",
        most + random.choice((0, 2)),
        {
            "scope": SET_REPOSITORY,
            "scale_set": SET_NAME,
            "max_runners": most,
            "min_idle": random.choice((0, 0, 1)),
            "rerun_interrupted": RERUNS,
        },
    )
    labels = {"labels": [LABEL], "rerun_interrupted": RERUNS}
    labelled = _template(random, "labels", random.randint(2, 5), labels)
    plan = JobPlan(
        faults=faults,
        set_template=runners.name,
        label_template=labelled.name,
        max_runners=most,
        offers=random.random() < OFFERED,
        every=random.uniform(20.0, 60.0),
        largest=random.randint(1, 4),
        lasts=(1.0, random.choice((10.0, 60.0, 120.0))),
        reruns=RERUNS,
    )
    return plan, (runners, labelled)


def draw_faults(maybe: Maybe, up_to: UpTo) -> GitHubFaults:
    return GitHubFaults(
        latency=up_to(0.01, 1.0),
        lost_request=maybe(0.05),
        lost_reply=maybe(0.05),
        refused=maybe(0.1),
        blows=maybe(0.01),
        troubles=maybe(40.0),
        lost_webhooks=maybe(0.3),
        repeated_webhooks=maybe(0.3),
        forged_webhooks=maybe(0.2),
        late=up_to(0.1, 60.0),
    )


def _template(random: Random, name: str, most: int, runner: dict[str, object]) -> TemplateSpec:
    return TemplateSpec(
        name=name,
        provider="simulated",
        runtime="github",
        reuse=random.choice((Reuse.NEVER, Reuse.SAME_OWNER)),
        max_nodes=most,
        min_idle=random.choice((0, 0, 1)),
        provision_timeout=random.uniform(120.0, 300.0),
        max_runtime=900.0,
        idle_timeout=120.0,
        rescue_window=0.0,
        tables={"runner": runner},
    )
