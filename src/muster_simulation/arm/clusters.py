"""The simulated Azure for the steps of clusters, without a network: for scenarios in virtual time."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from http import HTTPStatus
from typing import TypeVar

from muster.domain.cluster import INSTALLATION_TAG, Place
from muster.domain.errors import InvalidRequest, ProviderError, Refused, Uncertain
from muster.domain.ids import InstallationId
from muster.domain.template import TemplateSpec
from muster.integrations.aks.azure import Grant, NameInUse, Order, TrackLost
from muster.integrations.aks.error_codes import Problem, translated
from muster.integrations.aks.plan import place as place_of
from muster.integrations.aks.provider import AksProvider
from muster.integrations.aks.sight import Group, PoolSight, Sight
from muster.integrations.aks.tables import AKS, TEMPLATE
from muster_simulation.arm.faults import ArmError, Verb
from muster_simulation.arm.resources import (
    CANCELED,
    DELETING,
    FAILED,
    SUCCEEDED,
    VERSION,
    Arm,
    ArmCluster,
    ArmOperation,
    Asked,
    AskedPool,
    Assignment,
    kubelet_of,
    principal_of,
)

T = TypeVar("T")


class SimulatedClusters(AksProvider):
    """The steps of AKS over the simulated Azure."""

    def __init__(self, arm: Arm, *, call_timeout: float = 30.0, poll_every: float = 20.0) -> None:
        self.arm = arm
        self.azure = SimulatedAzure(arm)
        super().__init__(self.azure, call_timeout=call_timeout, poll_every=poll_every)


class SimulatedAzure:
    """Implements muster.integrations.aks.azure.Azure."""

    def __init__(self, arm: Arm) -> None:
        self.arm = arm
        self.configured = True
        """False: there are no credentials."""

    async def check(self, spec: TemplateSpec) -> None:
        if not self.configured:
            raise InvalidRequest("provider", AKS, "has no credentials on this server")

    async def group(self, place: Place) -> Group | None:
        found = await self._maybe(Verb.GET_GROUP, lambda: self.arm.get_group(place.group))
        if found is None:
            return None
        state = SUCCEEDED if found.gone_at is None else DELETING
        return Group(region=found.region, state=state, tags=dict(found.tags))

    async def make_group(self, place: Place, *, region: str, tags: Mapping[str, str]) -> None:
        await self._call(Verb.PUT_GROUP, lambda: self.arm.put_group(place.group, region, tags))

    async def holdings(self, place: Place) -> Sequence[str]:
        found = await self._maybe(Verb.LIST_GROUP, lambda: self.arm.list_group(place.group))
        return found or []

    async def delete_group(self, place: Place) -> None:
        await self._call(Verb.DELETE_GROUP, lambda: self.arm.delete_group(place.group))

    async def look(self, place: Place) -> Sight | None:
        found = await self._maybe(Verb.GET_CLUSTER, lambda: self.arm.get_cluster(place.group, place.name))
        return None if found is None else self._sight(found)

    def _sight(self, cluster: ArmCluster) -> Sight:
        now = self.arm.now()
        state = cluster.state(now)
        problem = cluster.operation.problem if state == FAILED else None
        return Sight(
            tags=dict(cluster.asked.tags),
            state=state,
            power=cluster.power,
            pools=tuple(
                PoolSight(name=pool.name, state=cluster.pool_state(number, now), count=pool.count)
                for number, pool in enumerate(cluster.asked.pools)
            ),
            principal=principal_of(cluster),
            kubelet=kubelet_of(cluster),
            fqdn=f"{cluster.name}.hcp.{cluster.asked.region}.azmk8s.io",
            kubernetes_version=cluster.asked.version,
            problem=None if problem is None else translated(problem, doing="make the cluster"),
        )

    async def list(
        self, account: str, installation: InstallationId
    ) -> Sequence[tuple[Place, Mapping[str, str]]]:
        found = await self._call(Verb.LIST_CLUSTERS, self.arm.list_clusters)
        return [
            (place_of(account, each.group, each.name), dict(each.asked.tags))
            for each in found
            if each.asked.tags.get(INSTALLATION_TAG) == installation
        ]

    async def create(self, order: Order) -> str:
        spec = TEMPLATE.of(order.template)
        asked = Asked(
            region=spec.region,
            tags={**spec.tags, **order.tags},
            pools=tuple(
                AskedPool(name=pool.name, mode=pool.mode, vm_size=pool.vm_size, count=pool.count)
                for pool in spec.pools
            ),
            version=spec.kubernetes_version or VERSION,
        )
        group, name = order.place.group, order.place.name
        made = await self._call(
            Verb.PUT_CLUSTER,
            lambda: self.arm.put_cluster(group, name, asked, only_if_missing=True),
            doing="make the cluster",
            needs=f"check resource_group = {group}",
        )
        return made.operation.id

    async def follow(self, place: Place, token: str) -> bool:
        work = await self._polled(token)
        status = work.status(self.arm.now())
        if status == SUCCEEDED:
            return True
        if status in (FAILED, CANCELED):
            problem = work.problem or Problem(code=CANCELED, message="The operation was cancelled.")
            raise translated(problem, doing="make the cluster")
        return False

    async def _polled(self, token: str) -> ArmOperation:
        """Whatever a poll meets, it is no outcome of the work."""
        try:
            return await self._call(Verb.POLL, lambda: self.arm.poll(token))
        except Refused as refusal:
            cause = refusal.__cause__
            if isinstance(cause, ArmError) and cause.problem.status == HTTPStatus.NOT_FOUND:
                raise TrackLost(str(refusal)) from refusal
            raise Uncertain(str(refusal)) from refusal

    async def abort(self, place: Place) -> None:
        try:
            await self._maybe(Verb.ABORT, lambda: self.arm.abort(place.group, place.name))
        except ProviderError as refusal:
            if not isinstance(refusal.__cause__, ArmError) or not _conflicts(refusal.__cause__):
                raise

    async def delete(self, place: Place) -> None:
        await self._call(Verb.DELETE_CLUSTER, lambda: self.arm.delete_cluster(place.group, place.name))

    async def grant(self, grant: Grant) -> None:
        wanted = Assignment(name=grant.name, scope=grant.scope, role=grant.role, principal=grant.principal)
        try:
            await self._call(
                Verb.PUT_ASSIGNMENT,
                lambda: self.arm.put_assignment(wanted),
                doing=f"grant {grant.role}",
                needs=f"check roles.scope = {grant.scope}",
            )
        except ProviderError as refusal:
            if not isinstance(refusal.__cause__, ArmError) or not _conflicts(refusal.__cause__):
                raise

    async def revoke(self, name: str, scope: str) -> None:
        await self._call(Verb.DELETE_ASSIGNMENT, lambda: self.arm.delete_assignment(name))

    async def close(self) -> None:
        return None

    # --- how a call goes --------------------------------------------------------------------------

    async def _maybe(self, verb: Verb, act: Callable[[], T]) -> T | None:
        try:
            return await self._call(verb, act)
        except ProviderError as refusal:
            cause = refusal.__cause__
            if isinstance(cause, ArmError) and cause.problem.status == HTTPStatus.NOT_FOUND:
                return None
            raise

    async def _call(
        self, verb: Verb, act: Callable[[], T], *, doing: str = "ask Azure", needs: str = ""
    ) -> T:
        try:
            return await self._answer(verb, act)
        except ArmError as refusal:
            if verb is Verb.PUT_CLUSTER and refusal.problem.status == HTTPStatus.PRECONDITION_FAILED:
                raise NameInUse(str(refusal)) from refusal
            told = translated(refusal.problem, doing=doing)
            if needs and refusal.problem.status == HTTPStatus.NOT_FOUND and isinstance(told, Refused):
                told = type(told)(f"{told}; {needs}", told.reason)
            raise told from refusal

    async def _answer(self, verb: Verb, act: Callable[[], T]) -> T:
        self.arm.calls.append(verb)
        fault = self.arm.faults.meet(verb)
        if fault is None:
            return act()
        if fault.loses:
            act()
        if fault.hangs:
            await asyncio.sleep(fault.hangs)
        if fault.problem is not None:
            raise ArmError(fault.problem)
        if fault.loses:
            raise Uncertain("cannot tell: the connection broke")
        return act()


def _conflicts(refusal: ArmError) -> bool:
    return refusal.problem.status == HTTPStatus.CONFLICT and refusal.problem.code in (
        "NoOperationToAbort",
        "RoleAssignmentExists",
    )
