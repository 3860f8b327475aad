"""What a cluster may be made of: Azure's rules, on both sides of each limit, each refusal naming its key."""

from dataclasses import replace
from typing import Any

import pytest

from muster.domain.checks import NAME_MAX
from muster.domain.errors import InvalidRequest
from muster.domain.requests import ClusterCreateRequest
from muster.domain.serialization import to_plain
from muster.domain.template import TemplateSpec
from muster.integrations.aks import spec as rules
from muster.integrations.aks.spec import AksPool, AksRole, AksSpec, AzureRole, PoolMode
from muster.integrations.aks.tables import TEMPLATE as TABLE
from tests.harness.azure import REGISTRY, SHARED, SPEC

SYSTEM, BLAST = SPEC.pools
SUBNET = f"{SHARED}/Microsoft.Network/virtualNetworks/net/subnets/nodes"


def refused(field: str, kind: Any, **given: Any) -> str:
    with pytest.raises(InvalidRequest) as refusal:
        kind(**given)
    assert refusal.value.field == field
    return refusal.value.rule


@pytest.mark.parametrize("name", ["c", "C1", "a-b_c", "9", "x" * NAME_MAX])
def test_names_that_azure_takes_are_taken(name: str) -> None:
    assert ClusterCreateRequest(name=name, template="batch").name == name


@pytest.mark.parametrize(
    "name", ["", "-a", "a-", "_a", "a.b", "a b", "ä", "a\n", "x" * (NAME_MAX + 1), 3, None]
)
def test_names_that_azure_does_not_take_are_refused_in_words(name: Any) -> None:
    rule = refused("name", ClusterCreateRequest, name=name, template="batch")
    assert "begin and end with a letter or digit" in rule


@pytest.mark.parametrize(
    ("field", "bad", "good"),
    [
        (
            "subscription",
            ["", "abc", SPEC.subscription[:-1], SPEC.subscription + "0"],
            [SPEC.subscription.upper()],
        ),
        ("resource_group", ["", "a.", "a b", "x" * 91, "a/b"], ["a", "A.b_(c)-1", "x" * 90]),
        ("region", ["", "West Europe", "westEurope", "-"], ["westeurope", "eastus2"]),
        ("kubernetes_version", ["", "1", "v1.33", "2.1", "1.33.2.1"], ["1.33", "1.33.2", None]),
        (
            "identity",
            ["", "user", SHARED],
            ["system", f"{SHARED}/Microsoft.ManagedIdentity/userAssignedIdentities/me"],
        ),
        ("oidc", [None, 1, "true"], [True]),
        ("keep_failed", [None, 0], [True, False]),
        ("pools", [(), (BLAST,), (SYSTEM, SYSTEM), [SYSTEM], ("pool",)], [(SYSTEM,)]),
        (
            "tags",
            [{"": "x"}, {"a/b": "x"}, {"muster-x": ""}],
            [{}],
        ),
        (
            "tags",
            [{"a": "x" * 257}, {"Azure-x": ""}],
            [{"a": ""}],
        ),
    ],
)
def test_what_a_cluster_is_made_of_is_checked_by_its_key(field: str, bad: list[Any], good: list[Any]) -> None:
    for value in bad:
        with pytest.raises(InvalidRequest) as refusal:
            replace(SPEC, **{field: value})
        assert refusal.value.field == field, value
    for value in good:
        assert getattr(replace(SPEC, **{field: value}), field) == value


@pytest.mark.parametrize(
    ("field", "bad", "good"),
    [
        ("name", ["", "A", "1a", "a-b", "x" * 13], ["a", "x" * 12, "np1"]),
        ("mode", ["System", None], list(PoolMode)),
        (
            "vm_size",
            ["", "Standard_D4s v5", "Standard_D4s_v5;rm", "x" * 65, 4],
            [
                "Standard_D4s_v5",
                "Standard_DC2as_cc_v5",
                "Standard_EC4as_cc_v5",
                "Standard_NCC40ads_H100_v5",
                "Standard_M1792ixds_32_v3",
                "Standard_DS3_v2_Promo",
                "Standard_ND128isr_NDR_GB200_v6",
                "Standard_NC24ads_A100_v4",
                "Standard_M64-32ms",
                "Standard_B2s",
            ],
        ),
        ("count", [0, -1, rules.POOL_NODES_MAX + 1, 5000, "3", True, 1.0], [1, rules.POOL_NODES_MAX]),
        (
            "taints",
            [["a=b:NoSchedule"], ("a",), ("a=b:Never",), (3,)],
            [(), ("gpu=true:NoSchedule", "x:NoExecute")],
        ),
        (
            "labels",
            [{"-a": ""}, {"a": "b c"}],
            [{"a.b/c": "d"}],
        ),
        ("labels", [{"kubernetes.azure.com/x": ""}], [{}]),
        ("disk_gb", [29, 2049, 0, "64"], [30, 2048, None]),
        ("subnet", ["", "nodes", REGISTRY], [SUBNET, None]),
    ],
)
def test_what_a_pool_is_made_of_is_checked_by_its_key(field: str, bad: list[Any], good: list[Any]) -> None:
    for value in bad:
        with pytest.raises(InvalidRequest) as refusal:
            replace(BLAST, **{field: value})
        assert refusal.value.field == field, value
    for value in good:
        assert getattr(replace(BLAST, **{field: value}), field) == value


@pytest.mark.parametrize(
    "size",
    [
        *("D4s_v5", "Standard_Huge", "Standard_X4s_v5", "standard_D4s_v5", "Standard_D"),
        *("Standard_D4s_", "Standard_D12345_v5", "Standard_4"),
    ],
)
def test_a_size_that_no_series_has_is_refused_where_it_is_written_and_read_where_it_is_stored(
    size: str,
) -> None:
    odd = replace(SPEC, pools=(SPEC.pools[0], replace(BLAST, vm_size=size)))
    template = TemplateSpec(name="batch", provider="aks", tables={"cluster": odd})
    with pytest.raises(InvalidRequest) as refusal:
        TABLE.whole(template)
    assert refusal.value.field == "cluster.pools[1].vm_size"
    assert TABLE.of(template) == odd


def test_a_cluster_without_a_system_pool_is_refused_with_the_reason() -> None:
    with pytest.raises(InvalidRequest, match="at least one pool of mode System"):
        replace(SPEC, pools=(BLAST,))


def test_all_pools_together_have_a_limit_of_their_own() -> None:
    most = rules.CLUSTER_NODES_MAX // rules.POOL_NODES_MAX
    full = tuple(replace(BLAST, name=f"p{number}", count=rules.POOL_NODES_MAX) for number in range(most))
    assert (
        replace(SPEC, pools=(replace(full[0], mode=PoolMode.SYSTEM), *full[1:])).nodes
        == rules.CLUSTER_NODES_MAX
    )
    with pytest.raises(InvalidRequest, match="at most 5000 nodes together"):
        replace(SPEC, pools=(SYSTEM, *full))


def test_workload_identity_needs_the_issuer() -> None:
    with pytest.raises(InvalidRequest, match="workload identity needs the OIDC issuer"):
        replace(SPEC, oidc=False)
    assert replace(SPEC, oidc=False, workload_identity=False).oidc is False


def test_a_role_is_wanted_on_what_it_is_for() -> None:
    assert AksRole(role=AzureRole.ACR_PULL, scope=REGISTRY).scope == REGISTRY
    for role in (AzureRole.NETWORK_CONTRIBUTOR, AzureRole.STORAGE_BLOB_DATA_CONTRIBUTOR):
        assert "must be the id of" in refused("scope", AksRole, role=role, scope=REGISTRY)
    refused("role", AksRole, role="Owner", scope=REGISTRY)
    wanted = AksRole(role=AzureRole.ACR_PULL, scope=REGISTRY)
    refused("roles", AksSpec, **{**_given(SPEC), "roles": (wanted, wanted)})


def test_only_a_template_of_the_provider_of_clusters_has_a_cluster() -> None:
    refused("cluster", TABLE.whole, spec=TemplateSpec(name="batch", provider="aks"))
    other = TemplateSpec(name="batch", provider="process", tables={"cluster": SPEC})
    refused("cluster", TABLE.whole, spec=other)
    refused("min_idle", TemplateSpec, name="batch", provider="aks", tables={"cluster": SPEC}, min_idle=1)
    refused(
        "boot_script", TemplateSpec, name="batch", provider="aks", tables={"cluster": SPEC}, boot_script="x"
    )
    assert TemplateSpec(name="batch", provider="aks", tables={"cluster": SPEC}).clusters


def _given(spec: AksSpec) -> dict[str, Any]:
    return {name: getattr(spec, name) for name in AksSpec.__dataclass_fields__}


def test_a_pool_is_said_in_few_words() -> None:
    assert AksPool(name="a", vm_size="Standard_D4s_v5") == replace(BLAST, name="a", count=1)


def test_tags_and_labels_are_read_as_earlier_versions_stored_them() -> None:
    new = replace(SPEC, tags={"team": "x"}, pools=(replace(SYSTEM, labels={"a": "b"}),))
    table: dict[str, Any] = to_plain(new)  # type: ignore[assignment]
    table["tags"] = [{"name": "team", "value": "x"}]
    table["pools"][0]["labels"] = [{"name": "a", "value": "b"}]
    assert TABLE.of(TemplateSpec(name="batch", provider="aks", tables={"cluster": table})) == new
