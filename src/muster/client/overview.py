"""The overview as values: what is wrong first, then what waits, failed, lingers and changed."""

from collections.abc import Mapping
from dataclasses import dataclass

from muster.client.results import Pauses, Pools
from muster.domain.progress import Tone


@dataclass(frozen=True, slots=True, kw_only=True)
class About:
    kind: str
    id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    code: str
    tone: Tone
    culprit: str
    text: str
    advice: str
    about: About | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    reason: str
    text: str
    count: int
    oldest_since: str
    operation_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Waitings:
    count: int
    more: bool
    reasons: tuple[Waiting, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    node_id: str
    health: str | None
    health_reason: str
    drain: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    operation_id: str | None
    run: str | None
    template: str
    since: str
    deadline_at: str | None
    count: int
    unwell: int
    nodes: tuple[Held, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Runs:
    count: int
    more: bool
    items: tuple[Run, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    cause: str
    diagnosed: bool
    reason: str
    template: str | None
    revision: int | None
    count: int
    nodes: int
    operations: int
    first_at: str
    last_at: str
    example_node_id: str | None
    example_operation_id: str | None
    detail: str
    advice: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    count: int
    more: bool
    groups: tuple[Group, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Failures:
    hour: Failed
    day: Failed


@dataclass(frozen=True, slots=True, kw_only=True)
class Leftover:
    node_id: str
    machine_id: str
    provider: str
    template: str
    since: str
    reason: str | None
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftoverList:
    count: int
    items: tuple[Leftover, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Leftovers:
    terminating: int
    stuck: LeftoverList
    orphans: LeftoverList


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    id: str
    at: str
    what: str
    text: str
    who: str
    entity: str
    entity_id: str
    template: str | None
    revision: int | None
    detail: str
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Ready:
    count: int
    p50: float
    p95: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Warm:
    provisions: int
    nodes: int
    warm: int
    rate: float | None
    more: bool
    ready: Ready | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Warmth:
    hour: Warm
    day: Warm


@dataclass(frozen=True, slots=True, kw_only=True)
class Duty:
    name: str
    every_seconds: float
    last_tick_at: str | None
    late: bool
    problem: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Calls:
    tone: Tone
    window_seconds: float
    calls: int
    errors: int
    p50_ms: float | None
    p95_ms: float | None
    p99_ms: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Provider:
    name: str
    kind: str
    tone: Tone
    window_seconds: float
    calls: int
    errors: int
    throttled: int
    error_rate: float | None
    p95_ms: float | None
    last_error: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Overview:
    at: str
    replica: str
    verdict: Finding
    findings: tuple[Finding, ...]
    waiting: Waitings
    runs: Runs
    failures: Failures
    leftovers: Leftovers
    changes: tuple[Change, ...]
    warmth: Warmth
    pools: Pools
    health: Mapping[str, int]
    brakes: Pauses
    duties: tuple[Duty, ...]
    providers: tuple[Provider, ...]
    store: Calls
