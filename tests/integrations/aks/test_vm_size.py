"""Azure's sizes by name: those that there are, those that there can't be, and what was probably meant."""

import pytest

from muster.domain.errors import InvalidRequest
from muster.integrations.aks import vm_size

THERE_ARE = """
    A0 A7 A2m_v2 B1ls B20ms B2ts_v2 B16als_v2 B32as_v2 B4pls_v2 D1 D15_v2 D5_v2_Promo DS11-1_v2
    DS14-8_v2 DS3_v2 D2_v3 D96a_v4 D4s_v5 D4ads_v5 D4plds_v6 D64alds_v6 D96lds_v6 DC1s_v3 DC2s DC8_v2
    DC16ads_cc_v5 DC96eds_v5 DC64as_v6 E2_v3 E16-4s_v5 E96-24ads_v6 E104ids_v5 E112ibds_v5 E192is_v6
    E192ds_v7 E20pds_v5 EC128ieds_v5 EC20as_cc_v5 EC96iads_v5 F1 F16s F72s_v2 F64ams_v6 FX12-6mds_v2
    FX36mds FX96ms_v2 G5 GS5 H16mr_Promo HB120rs_v3 HB176rs_v4 HB368rs_v5 HX176rs HC44rs L12aos_v4
    L80s_v3 L96as_v4 M8-2ms M64ls M32ts M128-64bds_3_v3 M416s_10_v2 M416-208ms_v2 M832ids_16_v3
    M192idms_v2 M1792ixds_32_v3 NC6_Promo NC24rs_v2 NC64as_T4_v3 NC96ads_A100_v4 NC80adis_H100_v5
    NCC40ads_H100_v5 ND40rs_v2 ND96isr_MI300X_v5 ND128isr_NDR_GB200_v6 NV4as_v4 NV28ads_V710_v5
    NV72ads_A10_v5 NV12s_v3 NG8ads_V620_v1 NP10s PB6s
"""


@pytest.mark.parametrize("name", THERE_ARE.split())
def test_sizes_that_azure_has_are_taken(name: str) -> None:
    assert vm_size.check("vm_size", f"Standard_{name}") == f"Standard_{name}"


@pytest.mark.parametrize(
    ("size", "meant"),
    [
        ("D4s_v5", "Standard_D4s_v5"),
        ("standard_d4s_v5", "Standard_D4s_v5"),
        ("Standard_D4sv5", "Standard_D4s_v5"),
        ("Standard-D4s-v5", "Standard_D4s_v5"),
        ("Standard_D4s_V5", "Standard_D4s_v5"),
        ("Standard_D4_s_v5", "Standard_D4s_v5"),
        ("Standart_D4s_v5", "Standard_D4s_v5"),
        (" Standard_D4s_v5", "Standard_D4s_v5"),
        ("Standard_D4s_v55", "Standard_D4s_v5"),
        ("Standard_E16z_v5", "Standard_E16_v5"),
        ("NC24ads_A100", "Standard_NC24ads_A100_v4"),
    ],
)
def test_a_slip_is_refused_with_what_was_meant(size: str, meant: str) -> None:
    with pytest.raises(InvalidRequest, match=f"did you mean {meant}\\?") as refusal:
        vm_size.check("vm_size", size)
    assert refusal.value.field == "vm_size"


@pytest.mark.parametrize(
    ("size", "why"),
    [
        ("Standard_X4s_v5", "there are no sizes of family X"),
        ("Standard_D5s_v5", "there is no such size in version 5 of family D"),
        ("Standard_D4q_v5", "there is no such size in version 5 of family D"),
        ("Standard_D8_v2", "there is no such size in version 2 of family D"),
        ("Standard_D4s", "there is no such size in version 1 of family D"),
        ("Standard_E16-16s_v5", "there is no such size in version 5 of family E"),
        ("Standard_D4s_A100_v5", "there is no such size in version 5 of family D"),
        ("Standard_E4s", "there is no version 1 of family E"),
        ("Standard_E4s_v2", "there is no version 2 of family E"),
        ("Standard_D4s_v0", "there is no version 0 of family D"),
        ("Standard_Huge", "must be the name of a size, like Standard_D4s_v5"),
        ("t3.large", "must be the name of a size, like Standard_D4s_v5"),
        ("", "must be the name of a size"),
        (4, "must be the name of a size"),
        ("Standard_D4s_v5" * 10**5, "must be the name of a size"),
        ("Standard_D4s_v5\n", "must be the name of a size"),
    ],
)
def test_a_size_that_no_series_has_is_refused_with_the_reason(size: object, why: str) -> None:
    with pytest.raises(InvalidRequest) as refusal:
        vm_size.check("vm_size", size)
    assert refusal.value.rule.startswith(why)


def test_the_tier_and_the_accelerator_are_taken_as_they_come() -> None:
    assert vm_size.check("vm_size", "Basic_A0")
    assert vm_size.check("vm_size", "Standard_NC24ads_A10O_v4")  # a maker's word: only Azure knows it


def test_series_that_are_newer_than_the_table_are_left_to_azure() -> None:
    newest = max(each.last for each in vm_size._SERIES if each.family == "D")
    for ahead in range(1, vm_size.FORESEEN + 1):
        assert vm_size.check("vm_size", f"Standard_D5q_v{newest + ahead}")
    with pytest.raises(InvalidRequest, match="there is no version"):
        vm_size.check("vm_size", f"Standard_D4s_v{newest + vm_size.FORESEEN + 1}")


@pytest.mark.parametrize(
    ("size", "vcpus"),
    [
        ("Standard_D4s_v5", 4),
        ("Standard_E16-4s_v5", 16),
        ("Standard_DS13_v2", 8),
        ("Standard_D15_v2", 20),
        ("Standard_GS5", 32),
        ("Standard_A6", 4),
        ("Standard_A4_v2", 4),
        ("Standard_NC24ads_A100_v4", 24),
        ("Standard_D5q_v9", None),
        ("huge", None),
    ],
)
def test_what_a_machine_counts_for(size: str, vcpus: int | None) -> None:
    assert vm_size.vcpus(size) == vcpus


@pytest.mark.parametrize(
    ("size", "quota"),
    [
        ("Standard_E16s_v5", "standardESv5Family"),
        ("Standard_D4ads_v5", "Standard DADSv5 Family vCPUs"),
        ("Standard_DS3_v2", "standardDSv2Family"),
        ("Standard_NC4as_T4_v3", "Standard NCASv3_T4 Family"),
        ("Standard_E16-4s_v5", "standardESv5Family"),
    ],
)
def test_a_size_is_of_the_family_that_its_quota_is_named_after(size: str, quota: str) -> None:
    assert vm_size.quota_family(size) == vm_size.normal(quota)
    assert vm_size.quota_family("huge") != vm_size.normal(quota)
