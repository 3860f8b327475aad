"""The store: verbs of the domain over one durable, shared truth.

Contract of every verb:

- Time is a parameter; the store has no clock. Where only the time of the write itself will do, the parameter
  is the caller's clock.
- A write is one transaction together with its events. It happens whole or not at all; when the call
  returns it is durable. `StoreUnavailable` means that it may or may not have happened.
- A write of a record that moved since it was read raises `Conflict` and writes nothing. A write for an
  operation carries its `Fence`; an old epoch raises `LeaseLost` and writes nothing.
- Lists are bounded, in a stated order, and continue by an opaque cursor.
- No transaction is held across an await of the caller.
- Where a person does something, or a program of theirs, `actor` says who, for the event.
- A verb is marked `reads` or `writes` (`ports.verbs`); what wraps the port goes by the mark.

How each engine keeps this is in docs/stores.md.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, NamedTuple, NewType, Protocol, TypeVar

from muster.domain.boot import Boot, Mark
from muster.domain.deadlines import Watch
from muster.domain.diagnosis import Bundle, Cause
from muster.domain.errors import NotFound
from muster.domain.events import Event
from muster.domain.health import Health, HealthChange, Vitals
from muster.domain.ids import InstallationId, LaunchId, NodeId, OperationId
from muster.domain.launch import Launch
from muster.domain.lifecycle import NodeState
from muster.domain.matching import Demand
from muster.domain.node import Binding, Node, NodeChange
from muster.domain.operation import Fence, Kind, Operation, OperationChange, Status
from muster.domain.pool_history import PoolSample
from muster.domain.reasons import Reason
from muster.domain.template import Template, TemplateSpec
from muster.ports.verbs import reads, writes

T = TypeVar("T")
TOTAL = "total"
"""The scope of the cap over all templates, as CapReached names it."""
AHEAD_MOST = 1001
"""How far the operations that wait before another are counted."""
Cursor = NewType("Cursor", str)
"""Opaque: made by the store, handed back to it unread."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Page(Generic[T]):
    items: tuple[T, ...]
    next: Cursor | None
    """Where to go on. None: nothing more at present (an event feed always gives one)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Installation:
    id: InstallationId
    max_nodes: int
    """The cap over all templates."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeView:
    """A node and the operation it belongs to, if it has one that is still known, at one moment."""

    node: Node
    operation: Operation | None


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationView:
    """An operation with all that it holds. The operation is read first: a guarded write with its version
    therefore fails if a node was lost after the view was taken. The launches are read before the nodes: of
    one that is shown as settled, every node that the operation still has is shown, too."""

    operation: Operation
    nodes: tuple[Node, ...]
    """Every node bound to it, also failed and terminating ones, by (created_at, id)."""
    launches: tuple[Launch, ...]
    """In the order of their ordinals."""
    seen: Mapping[NodeId, float]
    """Last heartbeat of each of the nodes that ever beat."""
    ahead: int
    """How many older operations wait in its template's queue. AHEAD_MOST: so many or more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Holdings:
    """The nodes and launches of an operation, and nothing else. The launches are read first."""

    nodes: tuple[Node, ...]
    """Every node bound to it, by (created_at, id)."""
    launches: tuple[Launch, ...]
    """In the order of their ordinals."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """What counts against a cap: recorded machines that are not terminated, and what open launches hold."""

    template: int
    total: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool:
    """A template's pool as the pool controller sees it. `version` guards the submission of a refill."""

    template: str
    version: int
    refill: OperationId | None
    """The last refill; it may have ended."""


class Beat(NamedTuple):
    """A heartbeat, and what it says beside "I live"."""

    node_id: NodeId
    seen_at: float
    activity: int | None = None
    """How far its boot has moved, in no unit. None: not said."""
    said: Health | None = None
    reason: str = ""


Alive = Mapping[float, Mapping[NodeId, object]]
"""Nodes that said only that they live, by the time of their beat."""
NO_NODES: Alive = {}


LASTING = "lasting/"
"""How the name of a duty begins whose lease outlives its holder: `expire_leases` leaves it as it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DutyLease:
    """A periodic duty that a replica wants to hold, and how it performs it."""

    name: str
    until: float
    ticked_at: float | None = None
    """When it last began a tick; None: it has not performed the duty yet."""
    problem: str = ""
    """What kept its last tick from its end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Drift:
    """A counter that disagreed with what it counts, and was set right."""

    scope: str
    counted: int
    stored: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Pruned:
    nodes: int
    launches: int
    operations: int
    events: int
    more: bool = False
    """It stopped because it was enough for one transaction, not because nothing was left."""


class Store(Protocol):
    # --- installation and templates ---------------------------------------------------------------

    @reads
    async def installation(self) -> Installation:
        """Return the installation. Its id was drawn when the store was made and never changes."""
        ...

    @writes
    async def limit_installation(self, max_nodes: int, *, now: float, actor: str = "") -> Installation:
        """Set the cap over all templates. Lowering it below what is in use stops launches, nothing else."""
        ...

    @writes
    async def apply_template(
        self, spec: TemplateSpec, *, now: float, actor: str = "", over: int | None = None
    ) -> Template:
        """Make `spec` current. Equal content writes nothing. What differs in POOL_KEEPING alone changes the
        current revision in place (event `adjusted`); all else makes the next one (event `applied`).
        `over`: only if this version is current. Raises Conflict if it isn't."""
        ...

    @reads
    async def template(self, name: str, revision: int | None = None) -> Template:
        """Return the current revision of a template, or a given one. Raises NotFound."""
        ...

    @reads
    async def templates(self) -> Sequence[Template]:
        """Return the current revision of every template, by name."""
        ...

    # --- nodes ------------------------------------------------------------------------------------

    @reads
    async def node(self, node_id: NodeId) -> Node:
        """Return a node. Raises NotFound."""
        ...

    @reads
    async def node_by_machine(self, provider: str, machine_id: str) -> Node | None:
        """Return the newest record of a machine."""
        ...

    @reads
    async def recorded(self, provider: str, machine_ids: Sequence[str]) -> Sequence[str]:
        """Return those of the machines whose record exists and is not terminated, in the order asked."""
        ...

    @reads
    async def nodes(
        self, *, states: Sequence[NodeState], template: str | None, after: Cursor | None, limit: int
    ) -> Page[Node]:
        """Return nodes in any of the states, by id."""
        ...

    @reads
    async def nodes_due(self, *, now: float, limit: int) -> Sequence[Node]:
        """Return nodes whose deadline has passed, longest overdue first."""
        ...

    @reads
    async def count_nodes(self, *, state: NodeState, template: str | None) -> int: ...

    @writes
    async def claim(
        self,
        demand: Demand,
        bindings: Sequence[Binding],
        *,
        fence: Fence,
        seen_since: float,
        now: float,
        deadline_at: float,
    ) -> Sequence[Node]:
        """Take up to len(bindings) idle nodes for the demand, each with one of the bindings.

        A node is given to one caller only, whatever the concurrency. It must fit (`matching.fits`): idle,
        right kind, unexpired, not draining, last seen at or after `seen_since`. Nodes that last served the
        same owner come first, then those idle for the shortest time. Fewer than asked for is not an error.
        Takes nothing if the template was paused before the call, and raises Paused if there is an idle node.
        """
        ...

    @reads
    async def count_claimable(self, demand: Demand, *, seen_since: float, now: float) -> int:
        """Return how many nodes `claim` could take at this moment."""
        ...

    @reads
    async def offer(self, idle: Sequence[Node]) -> None:
        """Point claims at these nodes: all idle nodes of some pools.

        A hint, for engines whose claims ask a queue first. A claim finds every idle node without it, too.
        """
        ...

    @writes
    async def apply(self, change: NodeChange, *, fence: Fence | None = None) -> Node:
        """Write a node, guarded. `confirm_gone` also frees the node's room under the caps.

        Raises Conflict if the record isn't `change.before` any more, or if the change's OperationGuard
        doesn't hold.
        """
        ...

    @writes
    async def apply_all(self, changes: Sequence[NodeChange], *, fence: Fence | None = None) -> Sequence[Node]:
        """Apply several changes in one go. Raises as `apply` does for the first that is refused.

        Of the others, all, some or none may be written then: read them again.
        """
        ...

    @writes
    async def adopt_stray(self, node: Node, *, now: float) -> Node | None:
        """Record a machine that has no live record and no open launch, as terminating.

        The machine counts against the caps although no operation asked for it. None: another caller recorded
        it first.
        """
        ...

    # --- joining ----------------------------------------------------------------------------------

    @writes
    async def admit(
        self, change: NodeChange | None, node_id: NodeId, *, key_hash: str, token_hash: str
    ) -> None:
        """Give a node its credentials: the first join comes with the JOINED change; a repeated one (None)
        replaces the token. Raises Conflict if another key was admitted before."""
        ...

    @writes
    async def enrol(
        self,
        node: Node,
        *,
        boot_id: str,
        key_hash: str,
        token_hash: str,
        stale_after: float,
        now: float,
        actor: str = "",
    ) -> Node:
        """Adopt an app that enrols itself, as joined: record, credentials, vitals and room under both caps,
        together.

        Raises CapReached and writes nothing if the caps are full. Live nodes of the template at the same
        address are displaced: the newest app owns the address.

        If the machine has a record already, that record is returned, whatever `node` says. A live one gets
        the new token. One that has ended stays untouched.
        """
        ...

    @reads
    async def admitted_key(self, node_id: NodeId) -> str | None: ...

    @reads
    async def node_for_token(self, token_hash: str) -> NodeId | None: ...

    @reads
    async def node_view(self, node_id: NodeId) -> NodeView: ...

    @reads
    async def node_view_for_token(self, token_hash: str) -> NodeView | None:
        """Return `node_for_token` and `node_view` at one moment."""
        ...

    # --- liveness ---------------------------------------------------------------------------------

    @writes
    async def record_beats(self, beats: Sequence[Beat], alive: Alive = NO_NODES) -> None:
        """Store when nodes were last seen. Never touches a node's version.

        `alive`: nodes whose beats say nothing else, by the time of the beat. Most beats are such, so they
        come without a Beat each.

        Moves a time back only if it lies more than CLOCK_ERROR after the beat. Otherwise no silence would be
        noticed until the clock shows that time again.
        """
        ...

    @reads
    async def last_seen(self, node_ids: Sequence[NodeId]) -> Mapping[NodeId, float]: ...

    @reads
    async def vitals(self, node_ids: Sequence[NodeId]) -> Mapping[NodeId, Vitals]:
        """Return the vitals of nodes. A node has them from its first join or beat until it is terminated."""
        ...

    @writes
    async def watch(self, *, now: float, gap: float, grace: float = 0.0, beat: float | None = None) -> Watch:
        """Store that a replica watches now, and return the watch.

        After a gap longer than `gap` the watch begins anew. If it breaks off again within `grace`, the time
        away counts from the first gap: a grace that was owed then is still owed. `beat` is the interval at
        which nodes are told to beat from now on.
        """
        ...

    @reads
    async def suspects(
        self, *, stale_before: float, settled_before: float, after: NodeId | None, limit: int
    ) -> Sequence[Vitals]:
        """Return vitals whose stored health may be outdated, by node id, after the given one.

        A node is suspect if it is silent since `stale_before` and not offline, is offline, is starting since
        before `settled_before`, or has news.
        """
        ...

    @writes
    async def mark_news_judged(self, judged: Sequence[Vitals]) -> None:
        """Mark what these nodes reported as judged. What they reported since then is still news."""
        ...

    @writes
    async def write_health(self, change: HealthChange) -> Vitals:
        """Write a node's health, guarded, with its event.

        Raises Conflict if the stored health moved or the node is gone. A change to offline by another source
        than HEARTBEAT also conflicts if the node was seen since.
        """
        ...

    @writes
    async def record_probe(self, node_id: NodeId, *, passed: bool, now: float) -> None:
        """Store the result of a probe. Never touches when the node was last seen.

        The count of failures in a row restarts if the watch began anew after the last probe.
        """
        ...

    @reads
    async def offline(
        self, *, states: Sequence[NodeState], since_before: float, limit: int
    ) -> Sequence[Node]:
        """Return nodes in the states whose health has been offline since before a time, longest first."""
        ...

    @reads
    async def stalled(self, *, now: float, stall_after: float, limit: int) -> Sequence[Node]:
        """Return booting nodes that joined and made no progress for longer than `stall_after`, longest first.

        The template's value counts; the given one where the template has none.
        """
        ...

    # --- boots and failures -----------------------------------------------------------------------

    @reads
    async def marks(self, node_id: NodeId) -> Sequence[Mark]:
        """Return the marks of the node's boot so far, in order."""
        ...

    @reads
    async def boots(self, template: str, revision: int) -> Sequence[Boot]:
        """Return the last finished boots of a revision, at most KEPT_BOOTS of each instance type, oldest
        first."""
        ...

    @reads
    async def undiagnosed(self, *, limit: int) -> Sequence[Node]:
        """Return failed nodes without a stored bundle, by id."""
        ...

    @writes
    async def file_bundle(self, bundle: Bundle, *, cause: Cause) -> bool:
        """Keep what was collected about a node's failure, with an event. The first one stays: False.
        `cause` is what it says: failures are counted by it."""
        ...

    @reads
    async def bundle(self, node_id: NodeId) -> Bundle | None: ...

    # --- launches ---------------------------------------------------------------------------------

    @writes
    async def reserve(self, launch: Launch, *, cap: int, total_cap: int, fence: Fence) -> Launch:
        """Insert a planned launch, holding its room under both caps. What is stored as a cap at that moment
        holds too, if it is lower than the caller knew. Raises CapReached (nothing written), and Paused if the
        template was paused before the call (nothing written either).
        A launch that is already there is returned as it is: a lost reply is harmless."""
        ...

    @writes
    async def write_launch(self, before: Launch, after: Launch, *, fence: Fence | None) -> Launch:
        """Write an open launch, guarded: as calling, or closed without machines, which frees its room."""
        ...

    @writes
    async def settle(
        self, before: Launch, after: Launch, machines: Sequence[Node], *, fence: Fence | None, now: float
    ) -> Launch:
        """Adopt the machines of a launch and write the launch, together. Machines that have a record already
        are left as they are. `after` may still be open (late finds). An adapter may need several
        transactions for many nodes; the launch's own write comes last, so repeating is safe."""
        ...

    @reads
    async def launch(self, launch_id: LaunchId) -> Launch:
        """Return a launch. Raises NotFound."""
        ...

    @reads
    async def launch_by_token(self, token: str) -> Launch | None: ...

    @reads
    async def launches_to_close(self, *, limit: int, after: Launch | None = None) -> Sequence[Launch]:
        """Open launches whose operation has ended, oldest first, those after the given one."""
        ...

    # --- operations -------------------------------------------------------------------------------

    @writes
    async def submit(
        self,
        operation: Operation,
        *,
        pool: Pool | None = None,
        fence: Fence | None = None,
        queue_cap: int | None = None,
        actor: str = "",
    ) -> tuple[Operation, bool]:
        """Insert an operation (with its first lease, if it has one). `actor` is who asked for it.

        The same idempotency key with an equal kind and request gives the operation that was made first and
        False; with another raises IdempotencyMismatch. With `pool`: Conflict if its version moved. With
        `fence` (of the operation that asks for this one): LeaseLost if it was taken over. With `queue_cap`:
        QueueFull if so many operations of its `waiting_owner` are queued; those that are submitted at the
        same moment may pass it.
        """
        ...

    @reads
    async def operation(self, operation_id: OperationId) -> Operation:
        """Return an operation. Raises NotFound."""
        ...

    @reads
    async def operation_by_key(self, key: str) -> Operation | None:
        """Return the operation that was submitted under an idempotency key."""
        ...

    @reads
    async def view(self, operation_id: OperationId) -> OperationView:
        """Return an operation with all that it holds. Raises NotFound."""
        ...

    @reads
    async def holdings(self, operation_id: OperationId) -> Holdings:
        """Return what an operation holds, by the simplest reads there are. Empty for an unknown operation.

        The failsafe uses it to end an operation when nothing else works.
        """
        ...

    @reads
    async def operations(
        self,
        *,
        kind: Kind | None,
        statuses: Sequence[Status],
        run: str | None,
        after: Cursor | None,
        limit: int,
    ) -> Page[Operation]:
        """Return operations, newest first."""
        ...

    @writes
    async def lease(
        self,
        owner: str,
        *,
        now: float,
        until: float,
        limit: int,
        absent_since: float | None = None,
        gone_since: float | None = None,
    ) -> Sequence[Operation]:
        """Take operations that have not ended and whose lease has lapsed, oldest first; epoch + 1.

        With `absent_since`, asking is a sign of life of the owner, also with a limit of 0. Queued operations
        are then taken, too, if their owner gave no sign of life since that time, because they block those
        behind them. With `gone_since`, an earlier time, so are all others whose owner gave none since then.
        An owner that never gave a sign of life keeps its leases until they lapse.
        """
        ...

    @writes
    async def seize(self, operation_id: OperationId, owner: str, *, now: float, until: float) -> Operation:
        """Take an operation from its present driver: epoch + 1, so that the earlier driver can't write any
        more.

        An operation that has ended is returned unchanged. Raises NotFound.
        """
        ...

    @writes
    async def renew(self, owner: str, fences: Sequence[Fence], *, until: float) -> Sequence[Fence]:
        """Prolong leases. Gives back those that were renewed; the others are lost."""
        ...

    @writes
    async def expire_leases(self, owner: str | None = None) -> int:
        """Let the leases of an owner lapse at once. Return how many operations were freed; duties are freed
        too.

        Without an owner, all leases lapse: only for a caller that knows that no other replica lives. Duties
        whose name begins with LASTING keep their lease until it lapses by itself, in both cases.
        """
        ...

    @writes
    async def write_operation(
        self,
        change: OperationChange,
        *,
        fence: Fence | None = None,
        clock: Callable[[], float] | None = None,
    ) -> Operation:
        """Write an operation, guarded by its version, and by its epoch if a fence is given.

        A change with `first_in_line` or `fresh_for` is refused unless the condition holds at the write.
        `fresh_for` needs `clock`: the store reads the caller's clock inside the transaction. A caller that
        was paused on the way is so judged by the time of its arrival.
        """
        ...

    @writes
    async def complete(
        self,
        commit: OperationChange,
        handed_over: Sequence[NodeChange],
        end: OperationChange,
        *,
        fence: Fence,
        clock: Callable[[], float],
    ) -> Operation:
        """Commit an operation, hand its nodes over and end it, in this order.

        Each write is guarded as by itself: as `write_operation`, `apply_all`, `write_operation`. What is
        refused undoes all three, or only itself and what follows: then the operation is committed, and
        rolls forward.
        """
        ...

    # --- pools and caps ---------------------------------------------------------------------------

    @reads
    async def pool(self, template: str) -> Pool: ...

    @reads
    async def usage(self, template: str) -> Usage: ...

    @writes
    async def audit(self, *, now: float) -> Sequence[Drift]:
        """Recount what the counters count; set right and report what differs."""
        ...

    # --- duties -----------------------------------------------------------------------------------

    @writes
    async def lease_duty(self, name: str, owner: str, *, now: float, until: float, problem: str = "") -> bool:
        """Hold a periodic duty: True if `owner` holds it until `until`, False while another's lease lasts.
        Holding it is a tick; `problem` says what kept the owner's last one from its end."""
        ...

    @writes
    async def lease_duties(self, owner: str, duties: Sequence[DutyLease], *, now: float) -> Sequence[str]:
        """Hold several duties in one go, each until its own time. Return the names of those that `owner`
        holds now.

        A duty on which another's lease lasts stays as it is. A duty that the owner has not performed keeps
        the tick of the holder before.
        """
        ...

    @reads
    async def bookmark(self, duty: str) -> Cursor | None:
        """Return how far the duty has followed the feed; None: it never said."""
        ...

    @writes
    async def move_bookmark(self, duty: str, owner: str, cursor: Cursor) -> None:
        """Note how far the duty has followed the feed. Raises Conflict unless `owner` was its last holder."""
        ...

    # --- events -----------------------------------------------------------------------------------

    @writes
    async def note(
        self,
        entity_id: str,
        name: str,
        *,
        reason: Reason | None,
        detail: str,
        now: float,
        actor: str = "",
    ) -> None:
        """Append an event of the installation, about a fact that no record shows."""
        ...

    @reads
    async def events(self, *, after: Cursor | None, limit: int, entity_id: str | None = None) -> Page[Event]:
        """Return a page of the feed: complete, at least once, each entity's events in the order of their
        versions.

        A cursor in the pruned part goes on with the oldest event that is left. Raises CursorLost for a cursor
        at an event that this store never had: it would skip the next events.
        """
        ...

    @reads
    async def last_events(self, *, limit: int, entity_id: str | None = None) -> Page[Event]:
        """Return the end of the feed, oldest first; `next` is where it goes on."""
        ...

    @writes
    async def keep_sample(self, sample: PoolSample, *, before: float) -> None:
        """Keep a sample of the pools, and forget samples taken before a time. Replaces the sample of the same
        minute. An adapter may forget a bounded number at a time."""
        ...

    @writes
    async def prune(self, *, before: float, limit: int) -> Pruned:
        """Forget terminated nodes, closed launches, ended operations and events older than `before`.
        What a live record still refers to stays."""
        ...


async def if_found(record: Awaitable[T]) -> T | None:
    """Return a record; None: there is none (any more)."""
    try:
        return await record
    except NotFound:
        return None


async def operation_of(store: Store, node: Node) -> Operation | None:
    """Return the operation that a node is bound to. None: it has none, or its record was pruned."""
    return None if node.operation_id is None else await if_found(store.operation(node.operation_id))
