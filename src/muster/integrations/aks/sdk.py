"""Azure through its own SDKs. Each verb is one call, or one look; only clients are kept between them.

A long-running operation is followed from its continuation token, one poll per look. So a replica that takes
over follows it as well as the one that began it.
"""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, cast

from azure.core import MatchConditions
from azure.core.exceptions import AzureError, ClientAuthenticationError
from azure.mgmt.authorization.v2022_04_01.models import RoleAssignmentCreateParameters
from azure.mgmt.core.polling.async_arm_polling import AsyncARMPolling
from azure.mgmt.resource.resources.models import ResourceGroup

from muster.domain.cluster import INSTALLATION_TAG, Place
from muster.domain.errors import InvalidRequest
from muster.domain.ids import InstallationId
from muster.domain.template import TemplateSpec
from muster.integrations.aks import bodies, clients, credentials
from muster.integrations.aks import sight as sights
from muster.integrations.aks.azure import Grant, Order
from muster.integrations.aks.clients import Clients
from muster.integrations.aks.errors import (
    Conflicting,
    NotThere,
    raise_translation,
    refuse_if_missing,
    translate_errors,
    translate_poll_errors,
)
from muster.integrations.aks.plan import place as place_of
from muster.integrations.aks.sight import Group, Sight
from muster.integrations.aks.spec import AzureRole
from muster.integrations.aks.tables import AKS, AksConfig

if TYPE_CHECKING:
    from azure.core.credentials_async import AsyncTokenCredential

HOLDINGS_MOST = 10
"""The first few prove that a group isn't empty."""
MAKING = "make the cluster"
FOLLOWING = "see how the making of the cluster goes"
_GROUP_PART = 4
"""Where an id names the resource group."""
_ASSIGNED = "RoleAssignmentExists"


class AzureSdk:
    """Implements muster.integrations.aks.azure.Azure."""

    def __init__(self, settings: AksConfig) -> None:
        self._settings = settings
        self._clients: dict[str, Clients] = {}
        self._credential: AsyncTokenCredential | None = None

    async def check(self, spec: TemplateSpec) -> None:
        if credentials.is_loopback(self._settings.endpoint):
            return
        try:
            async with asyncio.timeout(self._settings.call_timeout):
                await self._who().get_token(f"{self._settings.endpoint.rstrip('/')}/.default")
        except ClientAuthenticationError as error:
            rule = f"has no credentials on this server that Azure accepts: {_first_line(error)}"
            raise InvalidRequest("provider", AKS, rule) from error
        except TimeoutError as error:
            within = f"{self._settings.call_timeout:.0f} s"
            rule = f"has credentials that Azure did not confirm in {within}; try again later"
            raise InvalidRequest("provider", AKS, rule) from error
        except AzureError as error:
            rule = f"has credentials that can't be checked now ({_first_line(error)}); try again later"
            raise InvalidRequest("provider", AKS, rule) from error

    def _who(self) -> "AsyncTokenCredential":
        if self._credential is None:
            plain = credentials.is_loopback(self._settings.endpoint)
            self._credential = (
                clients.no_credential() if plain else credentials.credential(self._settings.credential)
            )
        return self._credential

    def _at(self, place: Place) -> Clients:
        return self._of(place.account)

    def _of(self, subscription: str) -> Clients:
        if subscription not in self._clients:
            self._clients[subscription] = clients.make_clients(
                subscription, self._settings.endpoint, self._who(), timeout=self._settings.call_timeout
            )
        return self._clients[subscription]

    async def close(self) -> None:
        for each in self._clients.values():
            await each.close()
        self._clients.clear()
        if self._credential is not None:
            await self._credential.close()
            self._credential = None

    # --- resource groups --------------------------------------------------------------------------

    async def group(self, place: Place) -> Group | None:
        try:
            with translate_errors(f"look at resource group {place.group}"):
                found = await self._at(place).resources.resource_groups.get(place.group)
        except NotThere:
            return None
        state = found.properties.provisioning_state if found.properties else ""
        return Group(region=str(found.location), state=str(state or ""), tags=dict(found.tags or {}))

    async def make_group(self, place: Place, *, region: str, tags: Mapping[str, str]) -> None:
        body = ResourceGroup(location=region, tags=dict(tags))
        doing = f"make resource group {place.group}"
        with (
            refuse_if_missing(f"check subscription = {place.account}"),
            raise_translation(),
            translate_errors(doing),
        ):
            await self._at(place).resources.resource_groups.create_or_update(place.group, body)

    async def holdings(self, place: Place) -> Sequence[str]:
        found: list[str] = []
        try:
            with translate_errors(f"list what is in resource group {place.group}"):
                pages = self._at(place).resources.resources.list_by_resource_group(
                    place.group, top=HOLDINGS_MOST
                )
                async for resource in pages:
                    found.append(str(resource.id))
                    if len(found) >= HOLDINGS_MOST:
                        break
        except NotThere:
            return []
        return found

    async def delete_group(self, place: Place) -> None:
        with (
            suppress(NotThere),
            raise_translation(),
            translate_errors(f"delete resource group {place.group}"),
        ):
            _ = await self._at(place).resources.resource_groups.begin_delete(place.group, polling=False)

    # --- the cluster ------------------------------------------------------------------------------

    async def look(self, place: Place) -> Sight | None:
        try:
            with translate_errors(f"look at cluster {place.name}"):
                found = await self._at(place).clusters.managed_clusters.get(place.group, place.name)
        except NotThere:
            return None
        return bodies.sight(found)

    async def list(
        self, account: str, installation: InstallationId
    ) -> Sequence[tuple[Place, Mapping[str, str]]]:
        found: list[tuple[Place, Mapping[str, str]]] = []
        with (
            refuse_if_missing(f"check subscription = {account}"),
            raise_translation(),
            translate_errors("list clusters"),
        ):
            async for each in self._of(account).clusters.managed_clusters.list():
                tags = dict(each.tags or {})
                parts = str(each.id).split("/")
                if tags.get(INSTALLATION_TAG) == installation and len(parts) > _GROUP_PART:
                    found.append((place_of(account, parts[_GROUP_PART], str(each.name)), tags))
        return found

    async def create(self, order: Order) -> str:
        place = order.place
        with (
            refuse_if_missing(f"check resource_group = {place.group}"),
            raise_translation(),
            translate_errors(MAKING),
        ):
            poller = await self._at(place).clusters.managed_clusters.begin_create_or_update(
                place.group,
                place.name,
                bodies.cluster(order),
                match_condition=MatchConditions.IfMissing,
            )
            return poller.continuation_token()

    async def follow(self, place: Place, token: str) -> bool:
        with translate_poll_errors(FOLLOWING):
            poller = await self._at(place).clusters.managed_clusters.begin_create_or_update(
                place.group, place.name, cast(Any, None), continuation_token=token
            )
            method = cast(AsyncARMPolling, poller.polling_method())
        if not method.finished():
            with translate_poll_errors(FOLLOWING, method):
                await method.update_status()
        if not method.finished():
            return False
        if sights.succeeded(method.status()):
            return True  # its last GET isn't made: the cluster is looked at anyway
        with raise_translation(), translate_errors(MAKING):
            # Not the poller's `result`: it can't read a first answer that came out of a token.
            await method.run()
        return True

    async def abort(self, place: Place) -> None:
        # There may be nothing (any more) to stop.
        with (
            suppress(NotThere, Conflicting),
            translate_errors(f"stop what is done to cluster {place.name}"),
        ):
            _ = await self._at(place).clusters.managed_clusters.begin_abort_latest_operation(
                place.group, place.name, polling=False
            )

    async def delete(self, place: Place) -> None:
        with suppress(NotThere), raise_translation(), translate_errors(f"delete cluster {place.name}"):
            _ = await self._at(place).clusters.managed_clusters.begin_delete(
                place.group, place.name, polling=False
            )

    # --- roles ------------------------------------------------------------------------------------

    async def grant(self, grant: Grant) -> None:
        subscription = grant.scope.split("/")[2]
        role = f"/subscriptions/{subscription}/providers/Microsoft.Authorization/roleDefinitions"
        body = RoleAssignmentCreateParameters(
            role_definition_id=f"{role}/{bodies.ROLE_IDS[AzureRole(grant.role)]}",
            principal_id=grant.principal,
            principal_type="ServicePrincipal",
        )
        try:
            with (
                refuse_if_missing(f"check roles.scope = {grant.scope}"),
                translate_errors(f"grant {grant.role}"),
            ):
                await self._of(subscription).roles.role_assignments.create(grant.scope, grant.name, body)
        except Conflicting as conflict:
            if conflict.problem.code != _ASSIGNED:
                raise conflict.error from conflict

    async def revoke(self, name: str, scope: str) -> None:
        with suppress(NotThere), raise_translation(), translate_errors("take a role back"):
            await self._of(scope.split("/")[2]).roles.role_assignments.delete(scope, name)


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or ["Azure did not confirm the credentials"])[0]
