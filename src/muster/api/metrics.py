"""Collect the metrics that an operator sets alarms on.

Gauges are read from the store at each scrape. Counters and durations are collected from this process's
writes.
"""

import time
from collections import Counter as Counted
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from inspect import isawaitable
from itertools import chain
from typing import Any, TypeVar, cast

import muster
from muster.api.job_metrics import JobMetrics
from muster.api.prometheus import MILLISECONDS, SECONDS, Counter, Histogram, Labels, gauge
from muster.api.telemetry import Telemetry
from muster.domain.deadlines import Limits
from muster.domain.errors import StoreFull, StoreUnavailable
from muster.domain.events import Draft, Entity
from muster.domain.lifecycle import Fact, NodeState, Verb
from muster.domain.operation import ENDED, Kind, Operation, OperationEvent, Status
from muster.domain.overview import Overview
from muster.domain.reasons import Reason
from muster.ports.store import Store

T = TypeVar("T")
SCANNED_MOST = 1000
"""Records that one scrape looks at, per question. A figure that reaches this says "at least"."""
_REMEMBERED_MOST = 50_000
_ENDED = tuple(status.value for status in ENDED)
_BEATING = (NodeState.IDLE, NodeState.CLAIMED, NodeState.RUNNING)


class Metrics:
    def __init__(self, *, started_at: float) -> None:
        self.ended = Counter("muster_operations_ended_total", "Operations that ended, by kind and status.")
        self.orphans = Counter("muster_orphans_total", "Machines without a record that were found.")
        self.launches = Histogram("muster_launch_seconds", "From a launch's call to its answer.", SECONDS)
        self.orphans.add(0)  # a rate sees no first orphan without a series before it
        self.boots = Histogram("muster_boot_seconds", "From a node's creation to booted.", SECONDS)
        self.attaches = Histogram("muster_attach_seconds", "From claimed or booted to attached.", SECONDS)
        self.ready = Histogram("muster_ready_seconds", "From a provision's request to its commit.", SECONDS)
        self.handed = Counter("muster_nodes_handed_over_total", "Nodes handed over, from the pool or new.")
        self.agents = Counter("muster_agent_requests_total", "Requests of agents, by what they ask for.")
        self.pushes = Counter("muster_agent_pushes_total", "Lines on agents' streams, by why they were sent.")
        self.store = Histogram("muster_store_seconds", "How long the store took, by verb.", MILLISECONDS)
        self.jobs = JobMetrics()
        self.telemetry = Telemetry()
        self.started_at = started_at
        self.duty_at = started_at
        """When duties last asked for their leases."""
        self.unwritable = False
        """Whether they asked in vain: reads may still succeed on a full disk, this small write does not."""
        self.refused_at: float | None = None
        """When the store last had no room to begin something, and took nothing since."""
        self._since: dict[str, float] = {}
        """When a node or launch began what is being timed."""
        self._kinds: dict[str, str] = {}

    # --- gathered ---------------------------------------------------------------------------------

    def saw(self, drafts: Iterable[Draft]) -> None:
        for draft in drafts:
            match draft.entity:
                case Entity.NODE:
                    self._node(draft)
                case Entity.LAUNCH:
                    self._launch(draft)
                case Entity.OPERATION:
                    self._operation(draft)
                case Entity.JOB:
                    self.jobs.saw(draft)
                case _:
                    pass

    def _node(self, draft: Draft) -> None:
        changes = draft.changes
        if draft.name == Verb.ADOPT:
            self._begin(draft.entity_id, changes.get("created_at"))
            if changes.get("reason") == Reason.ORPHAN:
                self.orphans.add()
        elif draft.name == Verb.CLAIM:
            self._begin(draft.entity_id, changes.get("entered_at"))
        elif draft.name == Fact.BOOTED:
            self._end(draft.entity_id, changes.get("booted_at"), self.boots)
            self._begin(draft.entity_id, changes.get("booted_at"))
        elif draft.name == Fact.ATTACHED:
            self._end(draft.entity_id, changes.get("attached_at"), self.attaches)
        elif changes.get("state") == NodeState.TERMINATED:
            self._since.pop(draft.entity_id, None)

    def _launch(self, draft: Draft) -> None:
        if "called_at" in draft.changes:
            self._begin(draft.entity_id, draft.changes["called_at"])
        if draft.changes.get("closed_at") is not None:
            self._end(draft.entity_id, draft.changes["closed_at"], self.launches)

    def _operation(self, draft: Draft) -> None:
        kind, status = draft.changes.get("kind"), draft.changes.get("status")
        if kind == Kind.PROVISION:
            self._begin(draft.entity_id, draft.changes.get("created_at"))
        if draft.name == OperationEvent.COMMITTED:
            self._committed(draft)
        if isinstance(kind, str):
            self._kinds[draft.entity_id] = kind
            _bound(self._kinds)
        if isinstance(status, str) and status in _ENDED:
            self.ended.add(kind=self._kinds.pop(draft.entity_id, "unknown"), status=status)
            self._since.pop(draft.entity_id, None)

    def _committed(self, draft: Draft) -> None:
        self._end(draft.entity_id, draft.changes.get("committed_at"), self.ready)
        members, warm = draft.changes.get("members"), draft.changes.get("warm", 0)
        if isinstance(members, Sequence) and isinstance(warm, int):
            self.handed.add(warm, source="pool")
            self.handed.add(len(members) - warm, source="new")

    def _begin(self, entity_id: str, since: object) -> None:
        if isinstance(since, int | float):
            self._since[entity_id] = float(since)
            _bound(self._since)

    def _end(self, entity_id: str, end: object, figure: Histogram) -> None:
        since = self._since.pop(entity_id, None)
        if since is not None and isinstance(end, int | float):
            figure.observe(max(0.0, end - since))

    def took(self, verb: str, seconds: float, error: Exception | None = None, *, now: float) -> None:
        self.store.observe(seconds, verb=verb)
        self.telemetry.store_took(verb, seconds, error, now=now)
        if verb in ("lease_duty", "lease_duties"):
            self.duty_at = now
            self.unwritable = isinstance(error, StoreUnavailable)
        if verb == "submit":
            self.refused_at = now if isinstance(error, StoreFull) else None

    # --- read -------------------------------------------------------------------------------------

    async def render(self, store: Store, seen: Overview, limits: Limits, *, beats: int, now: float) -> str:
        waiting = await _all(store, Status.QUEUED)
        queued = [operation for operation in waiting if operation.queued_since is not None]
        oldest = min((operation.created_at for operation in queued), default=now)
        stale = await store.offline(states=_BEATING, since_before=now, limit=SCANNED_MOST)
        open_now = [*waiting, *await _all(store, Status.RUNNING)]
        installation = await store.installation()
        lines: Iterator[str] = chain(
            gauge("muster_build_info", "Which Muster this is.", [({"version": muster.__version__}, 1)]),
            gauge("muster_nodes", "Nodes by template and state.", _nodes(seen)),
            gauge("muster_nodes_max", "The cap over all templates.", [({}, installation.max_nodes)]),
            gauge("muster_operations", "Operations under way, by kind and status.", _counted(open_now)),
            gauge("muster_queue_length", "Operations that wait for room.", [({}, len(queued))]),
            gauge("muster_queue_oldest_seconds", "How long the oldest has waited.", [({}, now - oldest)]),
            gauge("muster_beat_seconds", "How often nodes are told to beat.", [({}, limits.beat_seconds)]),
            gauge(
                "muster_stale_after_seconds",
                "Silence after which a node is offline.",
                [({}, limits.stale_after)],
            ),
            gauge("muster_nodes_stale", "Nodes whose heartbeat is not fresh.", [({}, len(stale))]),
            gauge(
                "muster_nodes_needing_attention",
                "Machines that resist their termination.",
                [({}, await _stuck(store, now - limits.attention))],
            ),
            *overview(seen),
            *self.jobs.lines(seen.jobs, now),
            ("# HELP muster_heartbeats_total Heartbeats received.", "# TYPE muster_heartbeats_total counter"),
            (f"muster_heartbeats_total {beats}",),
            *(figure.lines() for figure in (self.ended, self.orphans, self.handed, self.agents, self.pushes)),
            self.telemetry.errors.lines(),
            *(figure.lines() for figure in (self.launches, self.boots, self.attaches, self.ready)),
            *(figure.lines() for figure in (self.store, self.telemetry.calls)),
        )
        return "\n".join(lines) + "\n"


def overview(seen: Overview) -> Iterator[Iterator[str]]:
    """Yield the gauges of the overview."""
    verdict = {
        "code": seen.verdict.code,
        "culprit": seen.verdict.culprit.value,
        "tone": seen.verdict.tone.value,
    }
    yield gauge("muster_verdict", "What is wrong, first.", [(verdict, 1)])
    ages = [({"duty": each.name}, seen.at - each.ticked_at) for each in seen.duties if each.ticked_at]
    yield gauge("muster_duty_age_seconds", "Since a duty was last begun, by any replica.", ages)
    every = [({"duty": each.name}, each.every) for each in seen.duties]
    yield gauge("muster_duty_interval_seconds", "How often a duty is to be begun.", every)
    waits = [({"reason": each.reason.value}, each) for each in seen.waiting.groups]
    yield gauge(
        "muster_waiting", "Operations that wait, by reason.", [(name, each.count) for name, each in waits]
    )
    yield gauge(
        "muster_waiting_oldest_seconds",
        "How long the oldest has waited, by reason.",
        [(name, seen.at - each.oldest_since) for name, each in waits],
    )
    failed = [
        (
            {"cause": each.cause, "template": each.template or "", "revision": str(each.revision or "")},
            each.count,
        )
        for each in seen.failed_hour.groups
    ]
    yield gauge("muster_failures_hour", "What failed in the last hour, by cause and revision.", failed)
    held: dict[str, int] = Counted(each.node.template for each in seen.held)
    yield gauge(
        "muster_nodes_held",
        "Nodes that are kept for a look, by template.",
        [({"template": name}, count) for name, count in sorted(held.items())],
    )
    kept = [
        ({"webhook": each.webhook, "state": state}, count)
        for each in seen.undelivered
        for state, count in (("waiting", each.waiting), ("given_up", each.given_up))
    ]
    yield gauge("muster_webhook_undelivered", "Messages of webhooks that no receiver took.", kept)
    feels = [({"health": health.value}, count) for health, count in seen.health.items()]
    yield gauge("muster_nodes_health", "How nodes that joined feel.", feels)


def _nodes(seen: Overview) -> list[tuple[Labels, float]]:
    return [
        ({"template": pool.template.name, "state": state.value}, pool.counts.get(state, 0))
        for pool in seen.pools.items
        for state in NodeState
        if state is not NodeState.TERMINATED
    ]


async def _all(store: Store, status: Status) -> list[Operation]:
    page = await store.operations(kind=None, statuses=(status,), run=None, after=None, limit=SCANNED_MOST)
    return list(page.items)


async def _stuck(store: Store, before: float) -> int:
    page = await store.nodes(states=(NodeState.TERMINATING,), template=None, after=None, limit=SCANNED_MOST)
    return sum(node.entered_at < before for node in page.items)


def _counted(operations: list[Operation]) -> list[tuple[Labels, float]]:
    return [
        ({"kind": kind.value, "status": status.value}, count)
        for kind in Kind
        for status in (Status.QUEUED, Status.RUNNING)
        if (count := sum(each.kind is kind and each.status is status for each in operations)) >= 0
    ]


def _bound(memory: dict[str, Any]) -> None:
    while len(memory) > _REMEMBERED_MOST:
        del memory[next(iter(memory))]


Took = Callable[[str, float, Exception | None], None]
"""Told of each verb: its name, its seconds, and what it raised."""


def timed(port: T, took: Took) -> T:
    """Return a port whose verbs are timed, with the port's own interface."""
    return cast("T", _Timed(port, took))


class _Timed:
    def __init__(self, port: object, took: Took) -> None:
        self._port = port
        self._took = took

    def __getattr__(self, name: str) -> Any:
        verb = getattr(self._port, name)
        if not callable(verb):
            return verb

        def measured(*args: Any, **kwargs: Any) -> Any:
            given = verb(*args, **kwargs)
            return self._measured(name, given) if isawaitable(given) else given

        setattr(self, name, measured)
        return measured

    async def _measured(self, name: str, call: Awaitable[Any]) -> Any:
        began = time.perf_counter()
        raised: Exception | None = None
        try:
            return await call
        except Exception as error:
            raised = error
            raise
        finally:
            self._took(name, time.perf_counter() - began, raised)
