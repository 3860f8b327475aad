"""What the steps of clusters need of Azure, as code: every adapter runs it unchanged."""

import pytest

from muster.domain.errors import ProviderError, Refused, Throttled, Uncertain
from muster.domain.ids import InstallationId
from muster.domain.reasons import Reason
from muster.integrations.aks.azure import Azure, Grant, GroupMissing, NameInUse, NotKnownYet, Order, TrackLost
from muster.integrations.aks.error_codes import Problem
from muster.integrations.aks.plan import place
from muster.integrations.aks.spec import AzureRole
from muster_simulation.arm import Arm, Fault
from muster_simulation.arm.faults import Verb
from tests.harness.azure import REGISTRY, SUBSCRIPTION, TEMPLATE

PLACE = place(SUBSCRIPTION, "rg-batch", name="c1")
TAGS = {"muster-installation": "inst-1", "muster-cluster": "cl-1"}
ORDER = Order(place=PLACE, template=TEMPLATE, tags=TAGS)
QUOTA = Problem(
    code="CreateVMSSAgentPoolFailed",
    message="Creation failed.",
    details=(
        Problem(
            code="QuotaExceeded",
            message="Operation could not be completed as it results in exceeding approved"
            " Total Regional Cores quota. Additional details - Deployment Model: Resource Manager,"
            " Location: westeurope, Current Limit: 24, Current Usage: 4, Additional Required: 44,"
            " (Minimum) New Limit Required: 48.",
        ),
    ),
)


class Hours:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.time = 1000.0

    def now(self) -> float:
        return self.time


class AzureContract:
    """An adapter gives `provider`, over the `arm` that these fixtures share."""

    @pytest.fixture
    def hours(self) -> Hours:
        return Hours()

    @pytest.fixture
    def arm(self, hours: Hours) -> Arm:
        return Arm(hours.now)

    @pytest.fixture
    async def placed(self, provider: Azure) -> Azure:
        await provider.make_group(PLACE, region="westeurope", tags=TAGS)
        return provider

    async def test_a_group_is_seen_as_it_was_made(self, provider: Azure) -> None:
        assert await provider.group(PLACE) is None
        assert await provider.look(PLACE) is None
        assert await provider.holdings(PLACE) == []
        await provider.make_group(PLACE, region="westeurope", tags=TAGS)
        group = await provider.group(PLACE)
        assert group is not None
        assert (group.region, group.state, dict(group.tags)) == ("westeurope", "Succeeded", TAGS)

    async def test_a_cluster_is_made_followed_and_seen_with_its_pools(
        self, placed: Azure, hours: Hours
    ) -> None:
        token = await placed.create(ORDER)
        assert await placed.follow(PLACE, token) is False
        sight = await placed.look(PLACE)
        assert sight is not None
        assert (sight.state, dict(sight.tags)) == ("Creating", TAGS)
        assert [(pool.name, pool.state, pool.count) for pool in sight.pools] == [
            ("systempool", "Creating", 1),
            ("blastpool", "Creating", 10),
        ]
        hours.time += 1000
        assert await placed.follow(PLACE, token) is True
        sight = await placed.look(PLACE)
        assert sight is not None
        assert (sight.state, sight.power) == ("Succeeded", "Running")
        assert sight.principal and sight.kubelet and sight.fqdn and sight.kubernetes_version
        assert [one.lower() for one in await placed.holdings(PLACE)] == [PLACE.cluster_id.lower()]

    async def test_clusters_are_listed_by_the_tag_of_their_installation(self, placed: Azure) -> None:
        await placed.create(ORDER)
        ((place, tags),) = await placed.list(SUBSCRIPTION, InstallationId("inst-1"))
        assert (place.cluster_id.lower(), dict(tags)) == (PLACE.cluster_id.lower(), TAGS)
        assert list(await placed.list(SUBSCRIPTION, InstallationId("inst-2"))) == []

    async def test_a_second_create_of_a_name_changes_nothing(
        self, placed: Azure, arm: Arm, hours: Hours
    ) -> None:
        await placed.create(ORDER)
        for _ in range(2):
            with pytest.raises(NameInUse):
                await placed.create(ORDER)
            hours.time += 1000
        assert arm.changed == []

    async def test_work_that_failed_is_told_by_its_most_telling_code(
        self, placed: Azure, arm: Arm, hours: Hours
    ) -> None:
        arm.next_problem = QUOTA
        token = await placed.create(ORDER)
        hours.time += 1000
        with pytest.raises(Refused, match="Additional Required: 44") as refusal:
            await placed.follow(PLACE, token)
        assert refusal.value.reason is Reason.QUOTA
        sight = await placed.look(PLACE)
        assert sight is not None and sight.state == "Failed"
        assert sight.problem is not None and sight.problem.reason is Reason.QUOTA

    @pytest.mark.parametrize(
        ("status", "error"),
        [(404, TrackLost), (429, Throttled), (500, Uncertain), (401, Uncertain), (403, Uncertain)],
    )
    async def test_a_poll_that_fails_is_no_outcome_of_the_work(
        self,
        placed: Azure,
        arm: Arm,
        hours: Hours,
        status: int,
        error: type[ProviderError],
    ) -> None:
        token = await placed.create(ORDER)
        fault = Problem(status=status, code="Whatever", message="No.", retry_after=7.0)
        arm.faults.add(Fault(on=Verb.POLL, problem=fault, times=10))
        with pytest.raises(error) as told:
            await placed.follow(PLACE, token)
        assert not isinstance(told.value, Throttled) or told.value.retry_after == 7.0
        arm.faults.clear()
        hours.time += 1000
        assert await placed.follow(PLACE, token) is True

    @pytest.mark.parametrize("token", ["rubbish", "AAAA", "eyJhIjoxfQ=="])
    async def test_a_token_that_leads_nowhere_is_told_as_that(self, placed: Azure, token: str) -> None:
        with pytest.raises(TrackLost):
            await placed.follow(PLACE, token)

    async def test_an_abort_cancels_what_runs_and_nothing_to_abort_is_no_error(
        self, placed: Azure, hours: Hours
    ) -> None:
        await placed.abort(PLACE)
        token = await placed.create(ORDER)
        await placed.abort(PLACE)
        sight = await placed.look(PLACE)
        assert sight is not None and sight.state == "Canceling"
        hours.time += 1000
        with pytest.raises(Refused) as refusal:
            await placed.follow(PLACE, token)
        assert refusal.value.reason is Reason.CANCELLED or "Canceled" in str(refusal.value)
        await placed.abort(PLACE)

    async def test_a_deletion_waits_for_what_runs_and_is_then_accepted(
        self, placed: Azure, hours: Hours
    ) -> None:
        await placed.delete(PLACE)
        await placed.create(ORDER)
        with pytest.raises(Throttled):
            await placed.delete(PLACE)
        hours.time += 1000
        await placed.delete(PLACE)
        sight = await placed.look(PLACE)
        assert sight is not None and sight.state == "Deleting"
        hours.time += 1000
        assert await placed.look(PLACE) is None

    async def test_a_group_is_deleted_and_deleting_none_is_no_error(
        self, placed: Azure, hours: Hours
    ) -> None:
        await placed.delete_group(PLACE)
        group = await placed.group(PLACE)
        assert group is not None and group.state == "Deleting"
        hours.time += 1000
        assert await placed.group(PLACE) is None
        await placed.delete_group(PLACE)

    async def test_a_role_is_granted_once_whatever_its_name_and_taken_back(
        self, placed: Azure, arm: Arm, hours: Hours
    ) -> None:
        await placed.create(ORDER)
        hours.time += 1000
        sight = await placed.look(PLACE)
        assert sight is not None
        first = _grant(sight.kubelet, "11111111-1111-4111-8111-111111111111")
        for grant in (first, first, _grant(sight.kubelet, "22222222-2222-4222-8222-222222222222")):
            await placed.grant(grant)
        assert list(arm.assignments) == [first.name]
        for _ in range(2):
            await placed.revoke(first.name, first.scope)
        assert not arm.assignments

    async def test_a_principal_that_is_too_new_is_asked_for_again(self, placed: Azure) -> None:
        with pytest.raises(NotKnownYet):
            await placed.grant(_grant("nobody", "33333333-3333-4333-8333-333333333333"))

    @pytest.mark.parametrize("code", ["ResourceNotFound", "ResourceGroupNotFound"])
    async def test_what_a_call_needs_and_is_not_there_is_refused_with_what_to_check(
        self, placed: Azure, arm: Arm, code: str
    ) -> None:
        gone = Problem(status=404, code=code, message="It was not found.")
        arm.faults.add(Fault(on=Verb.PUT_ASSIGNMENT, problem=gone), Fault(on=Verb.PUT_CLUSTER, problem=gone))
        with pytest.raises(Refused, match=f"{code}.*check roles.scope = {REGISTRY}") as refusal:
            await placed.grant(_grant("nobody", "33333333-3333-4333-8333-333333333333"))
        assert refusal.value.reason is Reason.PROVIDER_REFUSED
        with pytest.raises(Refused, match=f"{code}.*check resource_group = rg-batch") as refusal:
            await placed.create(ORDER)
        assert refusal.value.reason is Reason.PROVIDER_REFUSED
        assert isinstance(refusal.value, GroupMissing) is (code == "ResourceGroupNotFound")

    async def test_a_group_that_is_being_deleted_is_waited_for(self, placed: Azure, arm: Arm) -> None:
        going = Problem(
            status=409,
            code="ResourceGroupBeingDeleted",
            message="The resource group 'rg-batch' is in deprovisioning state.",
        )
        arm.faults.add(Fault(on=Verb.PUT_CLUSTER, problem=going), Fault(on=Verb.PUT_GROUP, problem=going))
        with pytest.raises(Throttled):
            await placed.make_group(PLACE, region="westeurope", tags=TAGS)
        with pytest.raises(Throttled):
            await placed.create(ORDER)

    async def test_throttling_says_how_long_to_wait(self, placed: Azure, arm: Arm) -> None:
        slow = Problem(status=429, code="TooManyRequests", message="Slow down.", retry_after=17.0)
        arm.faults.add(Fault(on=Verb.GET_CLUSTER, problem=slow))
        with pytest.raises(Throttled) as throttled:
            await placed.look(PLACE)
        assert throttled.value.retry_after == 17.0

    @pytest.mark.parametrize(
        ("status", "code", "reason"),
        [
            (403, "AuthorizationFailed", Reason.PERMISSION),
            (400, "SkuNotAvailable", Reason.SKU_UNAVAILABLE),
            (409, "InvalidResourceLocation", Reason.REGION_MISMATCH),
            (400, "InvalidParameter", Reason.PROVIDER_REFUSED),
        ],
    )
    async def test_a_refusal_is_told_by_its_reason(
        self, placed: Azure, arm: Arm, status: int, code: str, reason: Reason
    ) -> None:
        arm.faults.add(Fault(on=Verb.PUT_CLUSTER, problem=Problem(status=status, code=code, message="No.")))
        with pytest.raises(Refused) as refusal:
            await placed.create(ORDER)
        assert refusal.value.reason is reason

    @pytest.mark.parametrize("status", [500, 503, 504])
    async def test_a_server_that_fails_proves_nothing(self, placed: Azure, arm: Arm, status: int) -> None:
        broken = Problem(status=status, code="InternalServerError", message="Try again.")
        arm.faults.add(Fault(on=Verb.GET_CLUSTER, problem=broken), Fault(on=Verb.PUT_CLUSTER, loses=True))
        with pytest.raises(Uncertain):
            await placed.look(PLACE)
        with pytest.raises(
            (Uncertain, NameInUse)
        ):  # an HTTP client may repeat it by itself, and meet its own
            await placed.create(ORDER)
        sight = await placed.look(PLACE)
        assert sight is not None, "the request arrived, although its answer was lost"


def _grant(principal: str, name: str) -> Grant:
    return Grant(name=name, scope=REGISTRY, role=AzureRole.ACR_PULL, principal=principal)
