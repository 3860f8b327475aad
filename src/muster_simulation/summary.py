"""What a run came to: counts by outcome, faults by kind, figures, and how to run it again."""

from dataclasses import dataclass, field

from muster_simulation.invariants.broken import Broken
from muster_simulation.world import World


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    seed: int
    faults: str
    hours: float
    replicas: int
    trace: str
    """The hash over everything that happened."""
    events: int
    operations: dict[str, int]
    """By kind, outcome and reason."""
    nodes: dict[str, int]
    injected: dict[str, int]
    virtual_seconds: float
    wall_seconds: float
    broken: str | None = None
    explanation: str = ""
    last: tuple[str, ...] = field(default=())

    @property
    def ok(self) -> bool:
        return self.broken is None

    @property
    def hours_per_second(self) -> float:
        return self.virtual_seconds / 3600.0 / self.wall_seconds if self.wall_seconds else 0.0

    @property
    def replay(self) -> str:
        return (
            f"muster simulate --seed {self.seed} --hours {self.hours:g} --replicas {self.replicas}"
            f" --faults {self.faults}"
        )


def summarize(
    world: World, *, hours: float, replicas: int, broken: Broken | None, virtual: float, wall: float
) -> Result:
    injected = {f"cloud: {kind}": times for kind, times in world.cloud.injected.items()}
    injected.update(world.counts.by_kind)
    return Result(
        seed=world.plan.seed,
        faults=str(world.plan.level),
        hours=hours,
        replicas=replicas,
        trace=world.trace.digest(),
        events=world.trace.events,
        operations=_operations(world),
        nodes=_nodes(world),
        injected=dict(sorted(injected.items())),
        virtual_seconds=virtual,
        wall_seconds=wall,
        broken=None if broken is None else broken.name,
        explanation="" if broken is None else broken.explanation,
        last=() if broken is None else world.trace.last,
    )


def _operations(world: World) -> dict[str, int]:
    counts: dict[str, int] = {}
    for operation in world.judge.records.operations.values():
        reason = f" ({operation['verdict']['reason']})" if operation["verdict"] else ""
        key = f"{operation['kind']} {operation['status']}{reason}"
        counts[key] = counts.get(key, 0) + 1
    return dict(sorted(counts.items()))


def _nodes(world: World) -> dict[str, int]:
    nodes = world.judge.records.nodes.values()
    return {
        "made": len(world.cloud.ledger) - world.plan.foreign,
        "recorded": len(nodes),
        "handed over": world.judge.count("hand_over"),
        "reused": world.judge.count("claim"),
        "terminated": sum(1 for node in nodes if node["state"] == "terminated"),
    }
