"""A quota that is used up: which, how much is missing, and how many nodes of which pools would fit."""

from dataclasses import replace

import pytest

from muster.integrations.aks.quota import Shortage, fitting, quota_advice, shortage
from muster.integrations.aks.spec import AksPool, PoolMode
from tests.harness.azure import SPEC

REGIONAL = (
    "Operation could not be completed as it results in exceeding approved Total Regional Cores quota."
    " Additional details - Deployment Model: Resource Manager, Location: westeurope, Current Limit: 24,"
    " Current Usage: 4, Additional Required: 44, (Minimum) New Limit Required: 48."
)
FAMILY = (
    "Insufficient vcpu quota requested 96, remaining 20 for family standardESv5Family for region westeurope."
)
AKS = (
    "Insufficient regional vcpu quota left for location westeurope."
    " left regional vcpu quota 4, requested quota 44."
)
MIXED = replace(
    SPEC,
    pools=(
        AksPool(name="blast", vm_size="Standard_E16s_v5", count=6),
        AksPool(name="system", mode=PoolMode.SYSTEM, vm_size="Standard_D4s_v5", count=3),
        AksPool(name="more", vm_size="Standard_E4s_v5", count=4),
    ),
)


@pytest.mark.parametrize(
    ("message", "quota", "left", "wanted"),
    [
        (REGIONAL, "Total Regional Cores", 20, 44),
        (FAMILY, "standardESv5Family", 20, 96),
        (AKS, "regional vcpu", 4, 44),
    ],
)
def test_the_figures_of_a_quota_are_read(message: str, quota: str, left: int, wanted: int) -> None:
    found = shortage(message)
    assert found is not None
    assert (found.quota, found.left, found.wanted, found.missing) == (quota, left, wanted, wanted - left)


def test_the_advice_says_which_quota_how_much_is_missing_and_how_many_nodes_would_fit() -> None:
    said = quota_advice(REGIONAL, SPEC)
    assert "the Total Regional Cores quota in westeurope is 24 vCPUs short: 20 left of 44 wanted" in said
    assert "5 of the 11 nodes would fit (systempool 1 of 1, blastpool 4 of 10)" in said
    assert "raise the quota" in said


def test_of_one_pool_the_number_says_it_all() -> None:
    alone = replace(SPEC, pools=(replace(SPEC.pools[0], count=11),))
    assert "; 5 of the 11 nodes would fit;" in quota_advice(REGIONAL, alone)


@pytest.mark.parametrize(
    ("quota", "left", "fits"),
    [
        ("Total Regional Cores", 0, {"blast": 0, "system": 0, "more": 0}),
        ("Total Regional Cores", 11, {"blast": 0, "system": 2, "more": 0}),
        ("Total Regional Cores", 12 + 3 * 16 + 9, {"blast": 3, "system": 3, "more": 2}),
        ("standardESv5Family", 20, {"blast": 1, "system": 3, "more": 1}),
        ("standardDSv5Family", 8, {"blast": 6, "system": 2, "more": 4}),
        ("standardFSv2Family", 15, {"blast": 0, "system": 3, "more": 0}),
    ],
)
def test_only_pools_of_its_family_are_limited_and_those_that_all_need_come_first(
    quota: str, left: int, fits: dict[str, int]
) -> None:
    assert fitting(Shortage(quota=quota, left=left, wanted=1000), MIXED) == fits


def test_what_does_not_add_up_is_estimated() -> None:
    unknown = replace(SPEC, pools=(replace(SPEC.pools[0], vm_size="Standard_D5q_v9", count=10),))
    assert "about 4 of the 10 nodes would fit" in quota_advice(REGIONAL, unknown)
    enough = replace(SPEC, pools=(replace(SPEC.pools[0], count=5),))
    assert "about 2 of the 5 nodes would fit" in quota_advice(REGIONAL, enough)


@pytest.mark.parametrize("message", ["", "No.", "quota 3", "Current Limit: 3", "requested 3"])
def test_a_quota_message_without_figures_still_gives_advice(message: str) -> None:
    assert shortage(message) is None
    assert "raise the quota" in quota_advice(message, SPEC)
