"""Draw fault plans from the seed: everything that chance decides before a run begins.

Each plan switches every fault on or off by itself and draws its strength. Runs in which only some things fail
find more than runs in which everything fails. A storm is a light plan with one fault all the time, so that
rare things happen in minutes.
"""

from dataclasses import dataclass, replace
from enum import StrEnum
from random import Random

from muster.domain.template import Reuse, TemplateSpec
from muster_simulation.callers import Load
from muster_simulation.cloud import CloudFaults
from muster_simulation.jobs.drawing import draw_faults, draw_jobs
from muster_simulation.jobs.faults import JobPlan
from muster_simulation.network import NetworkFaults
from muster_simulation.nodes import NodeFaults
from muster_simulation.operators import Site, draw_template
from muster_simulation.replicas import ReplicaFaults
from muster_simulation.storage import FaultRates


class Level(StrEnum):
    NONE = "none"
    LIGHT = "light"
    HEAVY = "heavy"
    PAUSES = "pauses"
    """Replicas stand still past their leases, again and again, in the middle of a write."""
    ANSWERS = "answers"
    """The cloud's answers get lost or come late, what it made shows late, and people lose patience."""
    ECHOES = "echoes"
    """Every message may come again, much later; runs are short and nodes change hands quickly."""
    CROWD = "crowd"
    """Far more is asked for than there is room for, and many are willing to wait."""
    MEDDLERS = "meddlers"
    """People end nodes and cancel provisions just then, while the store is slow."""
    DEATHS = "deaths"
    """Machines die at any time, and replicas stand still while their last words lie before them."""
    STRAYS = "strays"
    """Machines of ours run that no record tells of, and many that are made never say a word."""
    SLOW = "slow"
    """Boots take long, stand still for a while or for good, and end after they were given up."""
    ABSENCE = "absence"
    """The control plane is away as a whole, again and again, while nodes boot, run and are cut off."""
    BUGS = "bugs"
    """Some operations meet an unforeseen error, and meet it each time."""
    STREAMS = "streams"
    """Streams break and lose lines, while warm nodes change hands all the time."""
    JOBS = "jobs"
    """Jobs of workflows come by a scale set and by webhooks, while GitHub fails and replicas die."""


STORMS = tuple(level for level in Level if level not in (Level.NONE, Level.LIGHT, Level.HEAVY))

_SHARE = {Level.NONE: 0.0, Level.LIGHT: 0.35, Level.HEAVY: 0.65}
"""How likely each fault is part of a plan; a storm's other faults are light ones."""
_STRENGTH = {Level.NONE: 0.0, Level.LIGHT: 0.35, Level.HEAVY: 1.0}


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultPlan:
    seed: int
    level: Level
    cloud: CloudFaults
    nodes: NodeFaults
    network: NetworkFaults
    store: FaultRates
    replicas: ReplicaFaults
    wakeups_lost: float
    load: Load
    site: Site
    capacity: int | None
    foreign: int
    """Machines of another installation in the same account."""
    retention: float
    strays: int = 0
    """Machines of this installation that its store doesn't know, as after it was restored from a copy."""
    jobs: JobPlan | None = None
    """None: there is no GitHub."""

    @classmethod
    def draw(cls, seed: int, level: Level) -> "FaultPlan":
        draw = _Draw(Random(f"plan/{seed}/{level}"), level)
        random = draw.random
        templates = tuple(draw_template(f"t{number}", random) for number in range(random.randint(1, 3)))
        largest = min(spec.max_nodes for spec in templates)
        capped = sum(spec.max_nodes for spec in templates)
        # Drawn apart, so that what is added here leaves the plans of known seeds as they are.
        apart = _Draw(Random(f"plan/boots/{seed}/{level}"), level)
        templates = tuple(_patient(apart, spec) for spec in templates)
        streams = _Draw(Random(f"plan/streams/{seed}/{level}"), level)
        plan = cls(
            seed=seed,
            level=level,
            cloud=_cloud(draw),
            nodes=replace(_booting(apart, _nodes(draw)), unstreamed=streams.maybe(0.3)),
            network=replace(_network(draw), lost_push=streams.maybe(0.2), cuts=streams.maybe(30.0)),
            store=_store(draw),
            replicas=replace(_replicas(draw), absences=apart.maybe(6.0)),
            wakeups_lost=draw.maybe(0.3),
            load=_load(draw, largest),
            site=Site(
                templates=templates,
                total_cap=random.randint(max(2, capped // 2), capped + 2),
                changes=draw.maybe(12.0),
                meddling=draw.maybe(0.1),
            ),
            capacity=random.randint(3, capped + 4) if draw.happens() else None,
            foreign=random.randint(0, 3),
            retention=random.choice((1800.0, 7 * 86400.0)),
        )
        return _working(plan) if level is Level.JOBS else _stormy(plan)

    @classmethod
    def crowd(cls, nodes: int) -> "FaultPlan":
        """A quiet world with so many warm nodes, for the benchmark. Agents poll, and wait long for news: no
        wake-up is lost here."""
        plan = cls.draw(0, Level.NONE)
        spec = TemplateSpec(
            name="crowd", provider="simulated", max_nodes=nodes, min_idle=nodes, reuse=Reuse.ALWAYS
        )
        return replace(
            plan,
            nodes=replace(plan.nodes, poll=600.0, unstreamed=1.0),
            load=Load(every=60.0, largest=4, cancelled=0.0, special=0.0, hurried=0.0),
            site=Site(templates=(spec,), total_cap=nodes),
            foreign=0,
        )


class _Draw:
    def __init__(self, random: Random, level: Level) -> None:
        self.random = random
        self.level = level
        self._share = _SHARE.get(level, _SHARE[Level.LIGHT])
        self._strength = _STRENGTH.get(level, _STRENGTH[Level.LIGHT])

    def happens(self) -> bool:
        return self.random.random() < self._share

    def maybe(self, most: float) -> float:
        """A probability or rate up to `most` at full strength, or 0."""
        strength = self.random.uniform(0.2, 1.0) * most * self._strength
        return strength if self.happens() else 0.0

    def up_to(self, low: float, most: float) -> tuple[float, float]:
        """A range in seconds, wide only if its fault is switched on."""
        return (low, max(low, self.maybe(most)))


def _stormy(plan: FaultPlan) -> FaultPlan:
    load = plan.load
    match plan.level:
        case Level.PAUSES:
            often = ReplicaFaults(pauses=120.0, pause=(61.0, 150.0))
            return replace(plan, replicas=often, load=replace(load, every=15.0))
        case Level.ANSWERS:
            # Machines that show late and join late: room that was freed for them too early is taken again
            # while they still run.
            unanswering = replace(
                plan.cloud, lost_reply=0.5, late_request=0.3, lag=(100.0, 299.0), late_by=(30.0, 60.0)
            )
            joining_late = replace(plan.nodes, before_join=(30.0, 120.0))
            eager = replace(load, every=15.0, cancelled=0.4, hurried=0.5, queued=0.7)
            return replace(
                plan,
                cloud=unanswering,
                nodes=joining_late,
                load=eager,
                site=_cramped(plan.site),
                capacity=None,
            )
        case Level.ECHOES:
            repeating = NetworkFaults(latency=(0.001, 0.5), duplicate=0.6, stale=120.0, lost=0.1)
            brisk = replace(load, every=10.0, owners=1, hold=(1.0, 5.0), cancelled=0.3)
            return replace(plan, network=repeating, load=brisk, site=_reusing(plan.site))
        case Level.CROWD:
            crowd = replace(load, every=5.0, queued=0.8, hold=(5.0, 60.0), owners=2)
            return replace(plan, load=crowd, site=_cramped(plan.site), capacity=None)
        case Level.MEDDLERS:
            slow = replace(plan.store, slow=0.8, slowness=2.0)
            site = replace(plan.site, meddling=0.5)
            return replace(plan, store=slow, site=site, load=replace(load, every=15.0))
        case Level.DEATHS:
            often = ReplicaFaults(pauses=60.0, pause=(25.0, 150.0))
            deadly = replace(plan.cloud, deaths=40.0)
            gangs = replace(load, every=20.0, largest=max(3, load.largest), hold=(1.0, 10.0))
            return replace(plan, cloud=deadly, replicas=often, load=gangs)
        case Level.STRAYS:
            # No replica crashes: the one that saw a machine remembers it.
            silent = replace(plan.nodes, mute=0.3)
            return replace(plan, strays=4, nodes=silent, replicas=ReplicaFaults())
        case Level.SLOW:
            dawdling = replace(
                plan.nodes, slow=0.5, halts=0.5, halt=(30.0, 100.0), stuck=0.1, late=0.2, mumbles=0.3
            )
            # Between the sweep's look at how far boots are and what it writes about them, but not past its
            # lease: the one who takes over looks anew.
            often = ReplicaFaults(
                pauses=60.0, pause=(30.0, 58.0), ambushed=1.0, targeted=1.0, targets=("vitals",)
            )
            return replace(
                plan, nodes=dawdling, replicas=often, load=replace(load, every=25.0), site=_timed(plan)
            )
        case Level.ABSENCE:
            # Some come back while the one who gives up the offline stands still, between look and write.
            away = ReplicaFaults(
                absences=15.0,
                absence=(25.0, 240.0),
                restart=(1.0, 5.0),
                pauses=60.0,
                pause=(20.0, 58.0),
                ambushed=1.0,
                targeted=1.0,
                targets=("offline",),
            )
            cut_off = replace(plan.nodes, partitions=20.0, partition=(20.0, 300.0), slow=0.3, mumbles=0.2)
            return replace(plan, replicas=away, nodes=cut_off, load=replace(load, hold=(5.0, 300.0)))
        case Level.BUGS:
            buggy = replace(plan.store, bugs=0.25)
            busy = replace(load, every=10.0, queued=0.6, hurried=0.5, hold=(5.0, 60.0))
            return replace(plan, store=buggy, load=busy, site=_cramped(plan.site))
        case Level.STREAMS:
            breaking = replace(plan.network, lost_push=0.3, cuts=40.0)
            # Replicas that run: how long a node may take to hear counts in calm time.
            brisk = replace(load, every=15.0, hold=(1.0, 20.0), cancelled=0.3)
            return replace(
                plan, network=breaking, replicas=ReplicaFaults(), load=brisk, site=_reusing(plan.site)
            )
        case Level.NONE | Level.LIGHT | Level.HEAVY | Level.JOBS:
            return plan


def _working(plan: FaultPlan) -> FaultPlan:
    """Add a scale set, a template with labels, and a GitHub that fails."""
    random = Random(f"plan/jobs/{plan.seed}")
    draw = _Draw(random, Level.HEAVY)
    jobs, runners = draw_jobs(random, draw_faults(draw.maybe, draw.up_to))
    other = plan.site.templates[0]
    templates = (*runners, replace(other, max_nodes=min(other.max_nodes, 3), min_idle=0))
    total_cap = sum(spec.max_nodes for spec in templates) - random.choice((0, 0, 2))
    return replace(
        plan,
        jobs=jobs,
        load=replace(plan.load, every=90.0, largest=2, hold=(5.0, 60.0)),
        site=replace(plan.site, templates=templates, total_cap=total_cap, meddling=0.0),
        replicas=ReplicaFaults(crashes=10.0, restart=(1.0, 20.0), pauses=15.0, pause=(5.0, 150.0)),
        capacity=None,
    )


def _cramped(site: Site) -> Site:
    """Make the caps small, so that an overrun stands out."""
    templates = tuple(replace(spec, max_nodes=3, min_idle=min(spec.min_idle, 1)) for spec in site.templates)
    return replace(site, templates=templates, total_cap=2 * len(templates) + 1)


def _timed(plan: FaultPlan) -> Site:
    """Boots have little time and are extended, or have much and are given up where they stand still."""
    timeout, stall_after = (90.0, 60.0) if plan.seed % 2 else (400.0, 40.0)
    templates = tuple(
        replace(
            spec,
            provision_timeout=timeout,
            max_provision_timeout=None,
            stall_after=stall_after,
            rescue_window=120.0,
        )
        for spec in plan.site.templates
    )
    return replace(plan.site, templates=templates)


def _reusing(site: Site) -> Site:
    return replace(
        site, templates=tuple(replace(spec, reuse=Reuse.ALWAYS, min_idle=0) for spec in site.templates)
    )


def _cloud(draw: _Draw) -> CloudFaults:
    return CloudFaults(
        latency=draw.up_to(0.05, 8.0),
        lost_request=draw.maybe(0.1),
        lost_reply=draw.maybe(0.2),
        late_request=draw.maybe(0.2),
        duplicate=draw.maybe(0.2),
        throttled=draw.maybe(0.3),
        refused=draw.maybe(0.15),
        partial=draw.maybe(0.25),
        empty=draw.maybe(0.2),
        start=draw.up_to(1.0, 10.0),
        lag=draw.up_to(0.0, 299.0),
        stop=draw.up_to(1.0, 120.0),
        deaf=draw.maybe(0.5),
        deaths=draw.maybe(4.0),
        interruptions=draw.maybe(6.0),
    )


def _nodes(draw: _Draw) -> NodeFaults:
    return NodeFaults(
        before_join=draw.up_to(2.0, 40.0),
        script=draw.up_to(5.0, 90.0),
        attach=draw.up_to(0.5, 20.0),
        detach=draw.up_to(0.5, 20.0),
        poll=50.0 if draw.level is Level.NONE else 20.0,
        mute=draw.maybe(0.1),
        stuck=draw.maybe(0.1),
        broken=draw.maybe(0.1),
        late=draw.maybe(0.2),
        attach_hangs=draw.maybe(0.1),
        detach_hangs=draw.maybe(0.1),
        freezes=draw.maybe(8.0),
        partitions=draw.maybe(8.0),
        impostors=draw.maybe(0.05),
    )


def _booting(draw: _Draw, nodes: NodeFaults) -> NodeFaults:
    return replace(
        nodes,
        halts=draw.maybe(0.3),
        halt=(15.0, draw.random.choice((60.0, 200.0))),
        slow=draw.maybe(0.3),
        mumbles=draw.maybe(0.5),
    )


def _patient(draw: _Draw, spec: TemplateSpec) -> TemplateSpec:
    """Some stand still for only so long, some have a ceiling of their own."""
    random = draw.random
    stall_after = random.choice((None, random.uniform(40.0, 150.0)))
    ceiling = random.choice((None, (spec.provision_timeout or 0.0) * random.uniform(1.0, 2.0)))
    if draw.level is Level.NONE:
        return spec
    return replace(spec, stall_after=stall_after, max_provision_timeout=ceiling)


def _network(draw: _Draw) -> NetworkFaults:
    return NetworkFaults(
        latency=draw.up_to(0.001, 2.0),
        lost=draw.maybe(0.15),
        duplicate=draw.maybe(0.2),
        stale=draw.random.choice((5.0, 60.0, 300.0)),
        lost_beat=draw.maybe(0.3),
    )


def _store(draw: _Draw) -> FaultRates:
    return FaultRates(
        slow=draw.maybe(0.5),
        slowness=draw.random.choice((0.02, 0.2, 2.0)),
        unavailable=draw.maybe(0.03),
        lost_reply=draw.maybe(0.03),
        conflict=draw.maybe(0.1),
        short_claim=draw.maybe(0.3),
    )


def _replicas(draw: _Draw) -> ReplicaFaults:
    return ReplicaFaults(
        crashes=draw.maybe(20.0),
        restart=(1.0, draw.random.choice((5.0, 60.0, 200.0))),
        pauses=draw.maybe(15.0),
        pause=(2.0, draw.random.choice((30.0, 120.0, 500.0))),
        outages=draw.maybe(6.0),
    )


def _load(draw: _Draw, largest: int) -> Load:
    random = draw.random
    return Load(
        every=random.uniform(20.0, 120.0),
        largest=random.randint(1, max(1, min(5, 2 * largest // 3))),
        owners=random.randint(1, 3),
        hold=(1.0, random.choice((10.0, 120.0, 400.0))),
    )
