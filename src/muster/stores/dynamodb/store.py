"""The store port over DynamoDB and SQS: which function of which module each verb is.

Owns the table of verbs, and opening: connect, refuse a table that is not ours, put the parts together.
"""

from collections.abc import Callable
from functools import partial
from typing import Concatenate, ParamSpec, TypeVar

from muster.ports.clock import Clock
from muster.ports.commits import AfterCommit
from muster.ports.ids import Ids
from muster.stores.dynamodb import boots, counters, schema, templates
from muster.stores.dynamodb.access import DynamoAccess
from muster.stores.dynamodb.admission import Admission
from muster.stores.dynamodb.aws_client import AwsClient, Location
from muster.stores.dynamodb.candidates import WAIT_SECONDS, Candidates
from muster.stores.dynamodb.claims import Claims
from muster.stores.dynamodb.clusters import DynamoClusters
from muster.stores.dynamodb.commands import DynamoCommands
from muster.stores.dynamodb.feed import Feed
from muster.stores.dynamodb.jobs import DynamoJobs
from muster.stores.dynamodb.launches import Launches
from muster.stores.dynamodb.leases import Leases
from muster.stores.dynamodb.messages import DynamoMessages
from muster.stores.dynamodb.nodes import Nodes
from muster.stores.dynamodb.operations import Operations
from muster.stores.dynamodb.overview import DynamoOverview
from muster.stores.dynamodb.pruner import Pruner
from muster.stores.dynamodb.table import SETTLE_SECONDS, Table
from muster.stores.dynamodb.vitals import Beats, Liveness
from muster.stores.records import complete_in_steps

A = TypeVar("A")
P = ParamSpec("P")
R = TypeVar("R")
BEAT_EVERY = 15.0
"""Seconds between two writes of a node's heartbeats: what they cost is most of what a node costs."""


def _quiet(_written: object) -> None:
    """Ignore the write; the default hook."""


def _over(first: A, work: Callable[Concatenate[A, P], R]) -> Callable[P, R]:
    """Return the function with its first argument given."""
    return partial(work, first)


async def open_dynamodb(
    location: Location,
    *,
    ids: Ids,
    clock: Clock,
    after_commit: AfterCommit = _quiet,
    keep: float | None = None,
) -> "DynamoStore":
    """Open a store that `muster store create` made. Raises StoreUnavailable, saying what is wrong with it.

    `keep`: for how many seconds DynamoDB keeps events; None: until they are pruned."""
    aws = await AwsClient.open(location)
    try:
        return await assembled(aws, ids=ids, clock=clock, after_commit=after_commit, keep=keep)
    except BaseException:
        await aws.close()
        raise


async def assembled(
    aws: AwsClient,
    *,
    ids: Ids,
    clock: Clock,
    after_commit: AfterCommit = _quiet,
    keep: float | None = None,
    beat_every: float = BEAT_EVERY,
    wait: int = WAIT_SECONDS,
    settle: float = SETTLE_SECONDS,
) -> "DynamoStore":
    """Return a store over open clients."""
    table = Table(aws, clock=clock, ids=ids, settle=settle)
    shards = await schema.opened(table)
    feed = Feed(table, shards=shards, clock=clock, after_commit=after_commit, keep=keep)
    await feed.heads()
    return DynamoStore(
        table, feed, Candidates(aws, clock=clock, wait=wait), shards=shards, beat_every=beat_every
    )


class DynamoStore:
    """Implements muster.ports.store.Store."""

    def __init__(  # noqa: PLR0915 — a table: one line per verb
        self, table: Table, feed: Feed, candidates: Candidates, *, shards: int, beat_every: float
    ) -> None:
        self._table = table
        self._feed = feed
        self._candidates = candidates
        liveness = Liveness(table, feed, shards=shards)
        nodes = Nodes(table, feed, liveness, candidates)
        claims = Claims(table, feed, liveness, candidates)
        admission = Admission(table, feed, nodes, liveness)
        launches = Launches(table, feed, nodes)
        operations = Operations(table, feed, liveness)
        leases = Leases(table, feed, operations)
        self.commands = DynamoCommands(table, feed, nodes)
        self.access = DynamoAccess(table, feed)
        self.overview = DynamoOverview(table, feed, nodes, operations, liveness)
        self.clusters = DynamoClusters(table, feed, operations)
        self.jobs = DynamoJobs(table, feed)
        self.messages = DynamoMessages(table, feed)

        self.process_home = _over(table, templates.process_home)
        self.installation = _over(table, templates.installation)
        self.limit_installation = table.repeating(_over(feed, templates.limit_installation))
        self.apply_template = table.repeating(_over(feed, templates.apply))
        self.template = _over(table, templates.get)
        self.templates = _over(table, templates.current)

        self.node = nodes.get
        self.node_by_machine = nodes.by_machine
        self.recorded = nodes.recorded
        self.nodes = nodes.page
        self.nodes_due = nodes.due
        self.count_nodes = nodes.count
        self.claim = claims.claim
        self.count_claimable = claims.count
        self.offer = candidates.feed
        self.apply = nodes.apply
        self.apply_all = nodes.apply_all
        self.adopt_stray = nodes.adopt_stray

        self.admit = table.repeating(admission.admit)
        self.enrol = table.repeating(admission.enrol)
        self.admitted_key = admission.admitted_key
        self.node_for_token = admission.node_for_token
        self.node_view = operations.node_view
        self.node_view_for_token = operations.node_view_for_token

        self.record_beats = Beats(liveness, every=beat_every).record
        self.last_seen = liveness.last_seen
        self.vitals = liveness.get
        self.watch = table.repeating(liveness.watch)
        self.suspects = liveness.suspects
        self.mark_news_judged = liveness.mark_news_judged
        self.write_health = liveness.write_health
        self.record_probe = liveness.record_probe
        self.offline = nodes.offline
        self.stalled = nodes.stalled

        self.marks = _over(table, boots.marks)
        self.boots = _over(table, boots.of_revision)
        self.undiagnosed = nodes.undiagnosed
        self.file_bundle = _over(feed, boots.file_bundle)
        self.bundle = _over(table, boots.bundle)

        self.reserve = table.repeating(launches.reserve)
        self.write_launch = launches.write
        self.settle = table.repeating(launches.settle)
        self.launch = launches.get
        self.launch_by_token = launches.by_token
        self.launches_to_close = launches.to_close

        self.submit = table.repeating(operations.submit)
        self.operation = operations.get
        self.operation_by_key = operations.by_key
        self.view = operations.view
        self.holdings = operations.holdings
        self.operations = operations.page
        self.write_operation = operations.write
        self.complete = _over(self, complete_in_steps)

        self.lease = leases.lease
        self.seize = table.repeating(leases.seize)
        self.renew = leases.renew
        self.expire_leases = leases.expire
        self.lease_duty = leases.lease_duty
        self.lease_duties = leases.lease_duties
        self.bookmark = leases.bookmark
        self.move_bookmark = leases.move_bookmark

        self.pool = operations.pool
        self.usage = _over(table, counters.usage)
        self.audit = _over(feed, counters.audit)
        self.note = feed.note
        self.events = feed.page
        self.last_events = feed.tail
        self.keep_sample = self.overview.keep_sample
        self.prune = Pruner(
            table, feed, operations, commands=self.commands, clusters=self.clusters, jobs=self.jobs
        ).prune

    async def close(self) -> None:
        await self._candidates.sent()
        await self._table.aws.close()
