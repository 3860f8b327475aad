"""Hold the resources of the simulated Azure, and change them as time passes.

Keeps the rules that Muster relies on. A group never moves. A create with that condition makes a cluster only
where there is none. Only one operation runs at a time. A resource stays visible until it is gone. Notes what
must never happen.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from muster.integrations.aks.error_codes import Problem
from muster_simulation.arm.faults import Faults, error

SUBSCRIPTION = "00000000-0000-4000-8000-000000000001"
SUCCEEDED, FAILED, CANCELED = "Succeeded", "Failed", "Canceled"
CREATING, CANCELING, DELETING = "Creating", "Canceling", "Deleting"
IN_PROGRESS = "InProgress"
VERSION = "1.33.2"


@dataclass(frozen=True, slots=True, kw_only=True)
class Paces:
    """Seconds that things take."""

    create: float = 240.0
    pool: float = 60.0
    """A pool after the other, the first with the cluster."""
    abort: float = 20.0
    delete: float = 120.0
    group_delete: float = 30.0
    group_visible: float = 0.0
    """Until a new group is seen."""
    cluster_visible: float = 0.0
    """Until a new cluster is seen."""
    group_known: float = 0.0
    """Until a cluster can be put into a new group, which may be seen before that."""
    principal: float = 0.0
    """Until a new cluster's identity is known everywhere."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedPool:
    name: str
    mode: str = "System"
    vm_size: str = "Standard_D4s_v5"
    count: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A cluster as a request describes it."""

    region: str
    tags: Mapping[str, str]
    pools: tuple[AskedPool, ...]
    version: str = VERSION


@dataclass(slots=True, kw_only=True)
class ArmGroup:
    name: str
    region: str
    tags: dict[str, str]
    visible_at: float
    known_at: float = 0.0
    gone_at: float | None = None
    extras: list[str] = field(default_factory=list)
    """Ids of what others put into it."""


@dataclass(slots=True, kw_only=True)
class ArmOperation:
    """Work that was accepted; `ends_at` moves when it is aborted."""

    id: str
    kind: str
    started_at: float
    ends_at: float
    problem: Problem | None = None
    canceled: bool = False

    def status(self, now: float) -> str:
        if now < self.ends_at:
            return IN_PROGRESS
        if self.canceled:
            return CANCELED
        return SUCCEEDED if self.problem is None else FAILED


@dataclass(slots=True, kw_only=True)
class ArmCluster:
    name: str
    group: str
    asked: Asked
    operation: ArmOperation
    visible_at: float = 0.0
    power: str = "Running"
    failing_pools: tuple[str, ...] = ()
    pool_seconds: float = 0.0

    def state(self, now: float) -> str:
        status = self.operation.status(now)
        if status != IN_PROGRESS:
            return status
        return {"create": CANCELING if self.operation.canceled else CREATING, "delete": DELETING}[
            self.operation.kind
        ]

    def pool_state(self, number: int, now: float) -> str:
        """Pools come one after the other, and fail one after the other."""
        pool, work = self.asked.pools[number], self.operation
        state = self.state(now)
        if work.kind == "delete" or work.canceled:
            return state
        due = min(work.started_at + (number + 1) * self.pool_seconds, work.ends_at)
        if now < due:
            return CREATING
        return FAILED if pool.name in self.failing_pools else SUCCEEDED


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    name: str
    scope: str
    role: str
    principal: str


class Arm:
    def __init__(self, now: Callable[[], float], paces: Paces | None = None) -> None:
        self.now = now
        self.paces = paces or Paces()
        self.faults = Faults()
        self.groups: dict[str, ArmGroup] = {}
        self.clusters: dict[tuple[str, str], ArmCluster] = {}
        self.operations: dict[str, ArmOperation] = {}
        self.assignments: dict[str, Assignment] = {}
        self.calls: list[str] = []
        """Every call that was made, by verb and subject."""
        self.changed: list[str] = []
        """What was there and is different since it was put again: must never happen."""
        self.next_problem: Problem | None = None
        """How the next create ends."""
        self.next_failing_pools: tuple[str, ...] = ()
        self.headerless = False
        """Creates are answered without a word where to follow them."""
        self._numbers = 0

    # --- resource groups --------------------------------------------------------------------------

    def get_group(self, name: str) -> ArmGroup:
        group = self._group(name)
        if self.now() < group.visible_at:
            raise _no_group(name)
        return group

    def put_group(self, name: str, region: str, tags: Mapping[str, str]) -> bool:
        """True: it is new."""
        self._pass()
        there = self.groups.get(name.lower())
        if there is None:
            self.groups[name.lower()] = ArmGroup(
                name=name,
                region=region,
                tags=dict(tags),
                visible_at=self.now() + self.paces.group_visible,
                known_at=self.now() + self.paces.group_known,
            )
            return True
        if there.region.lower() != region.lower():
            message = f"Invalid resource group location '{region}'. It already exists in '{there.region}'."
            raise error(409, "InvalidResourceGroupLocation", message)
        if there.tags != dict(tags):
            self.changed.append(f"group {name}")
        there.tags = dict(tags)
        return False

    def list_group(self, name: str) -> list[str]:
        group = self._group(name)
        made = [
            f"/subscriptions/{SUBSCRIPTION}/resourceGroups/{name}"
            f"/providers/Microsoft.ContainerService/managedClusters/{cluster.name}"
            for (where, _), cluster in self.clusters.items()
            if where == name.lower()
        ]
        return made + group.extras

    def delete_group(self, name: str) -> bool:
        """False: there is none."""
        self._pass()
        group = self.groups.get(name.lower())
        if group is None:
            return False
        group.gone_at = group.gone_at or self.now() + self.paces.group_delete
        return True

    def _group(self, name: str) -> ArmGroup:
        self._pass()
        if name.lower() not in self.groups:
            raise _no_group(name)
        return self.groups[name.lower()]

    # --- clusters ---------------------------------------------------------------------------------

    def get_cluster(self, group: str, name: str) -> ArmCluster:
        self._group(group)
        found = self.clusters.get((group.lower(), name.lower()))
        if found is None or self.now() < found.visible_at:
            message = f"The Resource 'Microsoft.ContainerService/managedClusters/{name}' was not found."
            raise error(404, "ResourceNotFound", message)
        return found

    def list_clusters(self) -> list[ArmCluster]:
        self._pass()
        return list(self.clusters.values())

    def put_cluster(self, group: str, name: str, asked: Asked, *, only_if_missing: bool) -> ArmCluster:
        if self.now() < self._group(group).known_at:
            raise _no_group(group)
        there = self.clusters.get((group.lower(), name.lower()))
        if there is not None:
            self._refuse_change(there, only_if_missing=only_if_missing)
            self.changed.append(f"cluster {name}")
            there.asked = asked
            return there
        paces = self.paces
        made = ArmCluster(
            name=name,
            group=group,
            asked=asked,
            visible_at=self.now() + paces.cluster_visible,
            operation=self._begin("create", paces.create + paces.pool * (len(asked.pools) - 1)),
            failing_pools=self.next_failing_pools,
            pool_seconds=paces.create / 2 + paces.pool,
        )
        made.operation.problem = self.next_problem
        self.next_problem, self.next_failing_pools = None, ()
        self.clusters[group.lower(), name.lower()] = made
        return made

    def _refuse_change(self, there: ArmCluster, *, only_if_missing: bool) -> None:
        if only_if_missing:
            raise error(412, "PreconditionFailed", f"Managed cluster {there.name} exists already.")
        if there.operation.status(self.now()) == IN_PROGRESS:
            raise _busy(there)

    def abort(self, group: str, name: str) -> ArmOperation:
        cluster = self.get_cluster(group, name)
        work = cluster.operation
        if work.status(self.now()) != IN_PROGRESS:
            raise error(409, "NoOperationToAbort", "The operation completed before it could be cancelled.")
        if not work.canceled and work.kind == "create":
            work.canceled, work.ends_at = True, self.now() + self.paces.abort
        return work

    def delete_cluster(self, group: str, name: str) -> ArmOperation | None:
        self._pass()
        cluster = self.clusters.get((group.lower(), name.lower()))
        if cluster is None:
            return None
        if cluster.operation.status(self.now()) == IN_PROGRESS:
            if cluster.operation.kind == "delete":
                return cluster.operation
            raise _busy(cluster)
        cluster.operation = self._begin("delete", self.paces.delete)
        return cluster.operation

    def poll(self, operation_id: str) -> ArmOperation:
        self._pass()
        found = self.operations.get(operation_id)
        if found is None:
            raise error(404, "OperationNotFound", f"There is no operation {operation_id}.")
        return found

    # --- roles ------------------------------------------------------------------------------------

    def put_assignment(self, wanted: Assignment) -> Assignment:
        self._pass()
        if not self._knows(wanted.principal):
            message = f"Principal {wanted.principal} does not exist in the directory."
            raise error(400, "PrincipalNotFound", message)
        for there in self.assignments.values():
            if replace(there, name="") == replace(wanted, name="") and there.name != wanted.name:
                raise error(409, "RoleAssignmentExists", "The role assignment already exists.")
        self.assignments[wanted.name] = wanted
        return wanted

    def delete_assignment(self, name: str) -> bool:
        self._pass()
        return self.assignments.pop(name, None) is not None

    def _knows(self, principal: str) -> bool:
        return any(
            principal in (principal_of(cluster), kubelet_of(cluster))
            and self.now() >= cluster.operation.ends_at + self.paces.principal
            for cluster in self.clusters.values()
        )

    # --- time -------------------------------------------------------------------------------------

    def _begin(self, kind: str, seconds: float) -> ArmOperation:
        self._numbers += 1
        started = self.now()
        work = ArmOperation(
            id=f"0be7a710-0000-4000-8000-{self._numbers:012d}",
            kind=kind,
            started_at=started,
            ends_at=started + seconds,
        )
        self.operations[work.id] = work
        return work

    def _pass(self) -> None:
        """What was to be gone by now is gone."""
        now = self.now()
        for key, cluster in list(self.clusters.items()):
            if cluster.operation.kind == "delete" and now >= cluster.operation.ends_at:
                del self.clusters[key]
        for name, group in list(self.groups.items()):
            if group.gone_at is not None and now >= group.gone_at:
                del self.groups[name]
                for key in [key for key in self.clusters if key[0] == name]:
                    del self.clusters[key]


def principal_of(cluster: ArmCluster) -> str:
    return f"principal-of-{cluster.name}"


def kubelet_of(cluster: ArmCluster) -> str:
    return f"kubelet-of-{cluster.name}"


def _no_group(name: str) -> Exception:
    return error(404, "ResourceGroupNotFound", f"Resource group '{name}' could not be found.")


def _busy(cluster: ArmCluster) -> Exception:
    message = f"Operation is not allowed: another operation ({cluster.operation.kind}) is in progress."
    return error(409, "OperationNotAllowed", message)
