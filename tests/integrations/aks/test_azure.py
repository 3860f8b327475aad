"""The contract of Azure, run against Azure's own SDKs over HTTP on loopback, and the simulated port."""

import asyncio
from collections.abc import AsyncIterator
from types import SimpleNamespace

import pytest
from azure.core.exceptions import ClientAuthenticationError, ServiceRequestError

from muster.domain.errors import InvalidRequest, ProviderError, Refused, Uncertain
from muster.integrations.aks import credentials as aks_credentials
from muster.integrations.aks.azure import Azure
from muster.integrations.aks.errors import translate_errors
from muster.integrations.aks.lazy_sdk import lazy_sdk
from muster.integrations.aks.sdk import AzureSdk
from muster.integrations.aks.tables import AksConfig
from muster_simulation.arm import Arm, Fault, Paces
from muster_simulation.arm.clusters import SimulatedAzure
from muster_simulation.arm.faults import Verb
from muster_simulation.arm.server import ArmServer
from tests.harness.azure import TEMPLATE
from tests.integrations.aks.azure_contract import ORDER, PLACE, AzureContract, Hours


class TestSimulated(AzureContract):
    @pytest.fixture
    def provider(self, arm: Arm) -> Azure:
        return SimulatedAzure(arm)


class TestAks(AzureContract):
    @pytest.fixture
    async def provider(self, arm: Arm) -> AsyncIterator[Azure]:
        async with ArmServer(arm).listening() as endpoint:
            made = lazy_sdk(AksConfig(endpoint=endpoint, call_timeout=5.0), {})
            await made.check(TEMPLATE)
            yield made
            await made.close()

    async def test_a_create_that_ends_at_once_is_done_at_once(self, placed: Azure, arm: Arm) -> None:
        arm.paces = Paces(create=0.0, pool=0.0)
        assert await placed.follow(PLACE, await placed.create(ORDER)) is True

    async def test_a_create_without_a_word_where_to_follow_it_is_followed_by_its_own_state(
        self, placed: Azure, arm: Arm, hours: Hours
    ) -> None:
        arm.headerless = True
        token = await placed.create(ORDER)
        assert await placed.follow(PLACE, token) is False
        hours.time += 1000
        assert await placed.follow(PLACE, token) is True

    async def test_a_token_is_followed_by_another_process(
        self, placed: Azure, arm: Arm, hours: Hours
    ) -> None:
        token = await placed.create(ORDER)
        async with ArmServer(arm).listening():
            pass  # the process that began it is gone; its token names the endpoint that is still there
        hours.time += 1000
        assert await placed.follow(PLACE, token) is True

    async def test_a_poll_that_gets_no_answer_is_uncertain(self, arm: Arm) -> None:
        arm.faults.add(Fault(on=Verb.GET_CLUSTER, hangs=30.0))
        async with ArmServer(arm).listening() as endpoint:
            provider = lazy_sdk(AksConfig(endpoint=endpoint, call_timeout=0.2), {})
            with pytest.raises(Uncertain):
                await provider.look(PLACE)
            await provider.close()

    async def test_an_endpoint_that_does_not_answer_is_uncertain(self) -> None:
        provider = lazy_sdk(AksConfig(endpoint="http://127.0.0.1:9", call_timeout=1.0), {})
        with pytest.raises(Uncertain, match="can't be reached"):
            await provider.look(PLACE)
        await provider.close()


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("", Uncertain),
        ("https://login.microsoftonline.com/t/oauth2/v2.0/token", Uncertain),
        ("https://management.azure.com/subscriptions/s/resourceGroups/g", Refused),
    ],
)
def test_an_issuer_of_tokens_that_is_away_is_uncertain_and_a_token_that_azure_refuses_is_refused(
    url: str, expected: type[ProviderError]
) -> None:
    error = ClientAuthenticationError("No managed identity endpoint found.")
    if url:
        error.response = SimpleNamespace(request=SimpleNamespace(url=url))
    with pytest.raises(expected, match="cannot look"), translate_errors("look"):
        raise error


async def test_missing_credentials_are_refused_by_name_before_any_call() -> None:
    provider = lazy_sdk(AksConfig(credential="environment"), {"AZURE_TENANT_ID": "t"})
    with pytest.raises(InvalidRequest, match="set AZURE_CLIENT_ID, AZURE_CLIENT_SECRET or"):
        await provider.check(TEMPLATE)


class _Vouching:
    """A credential that raises what it is given, or never answers."""

    def __init__(self, error: Exception | None) -> None:
        self._error = error

    async def get_token(self, *_scopes: str) -> None:
        if self._error is None:
            await asyncio.Event().wait()
        else:
            raise self._error


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (None, "in 0 s; try again later"),
        (ServiceRequestError("no route to host"), "no route to host.*try again later"),
        (ClientAuthenticationError("AADSTS7000215"), "that Azure accepts: AADSTS7000215"),
    ],
)
async def test_credentials_that_can_not_be_checked_refuse_in_words(
    error: Exception | None, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    provider = AzureSdk(AksConfig(call_timeout=0.05))
    monkeypatch.setattr(provider, "_who", lambda: _Vouching(error))
    with pytest.raises(InvalidRequest, match=told):
        await provider.check(TEMPLATE)


async def test_a_missing_extra_is_told_with_the_command_that_installs_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(aks_credentials, "find_spec", lambda _name: None)
    provider = lazy_sdk(AksConfig(), {})
    with pytest.raises(InvalidRequest, match=r"pip install 'muster-compute\[azure\]'"):
        await provider.check(TEMPLATE)
