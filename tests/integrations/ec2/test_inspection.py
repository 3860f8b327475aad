"""What `muster doctor` finds out about EC2, and whether what `muster iam` prints suffices."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fakes.ec2 import FakeEc2
from muster.domain.errors import Uncertain
from muster.domain.template import TemplateSpec, UsageClass
from muster.integration import Check, Level
from muster.integrations.ec2 import policies
from muster.integrations.ec2.inspection import QUOTAS, Inspection
from muster.integrations.ec2.provider import Ec2Provider
from muster.testing.provider_contract import ids, listed
from tests.aws_calls import named
from tests.integrations.ec2.region import SUBNETS, Region, spec, template, wanting


async def found(region: Region, *templates: TemplateSpec, **more: Any) -> dict[str, Check]:
    provider = region.provider(**more)
    inspection = Inspection(region.settings(**more), provider.aws)
    return {each.subject: each async for each in inspection.findings(templates or (template(),))}


async def test_a_good_set_up_is_fine_and_nothing_was_made(region: Region, fake: FakeEc2) -> None:
    findings = await found(region)
    assert all(each.level is Level.OK for each in findings.values()), findings
    assert findings["template work"].words.endswith("eu-west-1a, eu-west-1b")
    assert findings["template work launch template"].words == "is made at the first launch"
    assert (fake.instances(there=False), fake.cloud.templates) == ([], {})


async def test_a_launch_template_that_is_there_is_named_with_its_version(region: Region) -> None:
    await region.provider().launch(wanting())
    findings = await found(region)
    assert findings["template work launch template"].words == "muster-inst-1-work has it as version 1"


async def test_each_template_is_told_which_types_it_would_get(region: Region) -> None:
    large, small = template(), replace(template("little"), resource_class="small")
    old = replace(template("old"), instance_types=("m5.large",))
    findings = await found(region, large, small, old)
    assert all(each.level is Level.OK for each in findings.values()), findings
    assert findings["template work instance types"].words == (
        "large (2 cpu, 4096 MiB): c7i.large, m7i.large, c7a.large, r7i.large"
    )
    assert findings["template little instance types"].words == (
        "small (1 cpu, 1024 MiB): c7i.large, m7i.large, c7a.large, r7i.large;"
        " no type has exactly 1 cpu, so up to 2 will do"
    )
    assert findings["template old instance types"].words == "large (2 cpu, 4096 MiB): m5.large"


async def test_a_template_that_no_type_fits_is_told_so_with_what_to_do(region: Region) -> None:
    finding = (await found(region, replace(template(), instance_types=("x9.*",))))[
        "template work instance types"
    ]
    assert finding.level is Level.FAILED
    assert "no instance type of this region has 2 to 8 processors and 4096 MiB for x86_64" in finding.words
    assert finding.advice == "correct [templates.work]"


async def test_without_the_right_to_ask_for_types_the_exact_size_is_launched(
    region: Region, fake: FakeEc2
) -> None:
    fake.faults.denied = frozenset({"GetInstanceTypesFromInstanceRequirements"})
    finding = (await found(region))["template work instance types"]
    assert finding.level is Level.WARNING and "muster iam" in finding.advice
    assert len((await region.provider().launch(wanting())).machines) == 1


@pytest.mark.parametrize(
    ("status", "kind", "page"),
    [
        (502, "text/plain", b"Bad Gateway"),
        (502, "text/html", b"<!doctype html><title>502</title>"),
        (200, "text/html", b"<!doctype html><p>Sign in<br>here"),
    ],
)
async def test_a_page_of_a_proxy_s_is_no_answer_and_breaks_off_nothing(
    region: Region, fake: FakeEc2, status: int, kind: str, page: bytes
) -> None:
    for action in ("GetCallerIdentity", "DescribeSubnets", "CreateFleet", "DescribeInstances"):
        fake.faults.intercept(action, status, kind, page)
    finding = (await found(region))["ec2 credentials"]
    assert finding.level is Level.FAILED and "the answer is no answer of AWS's" in finding.words
    assert (await found(region))["template work"].level is Level.FAILED
    findings = await found(region)
    told = findings["template work permission"]
    assert told.level is Level.WARNING
    provider = region.provider()
    for action in ("CreateFleet", "DescribeInstances"):
        fake.faults.intercept(action, status, kind, page)
    with pytest.raises(Uncertain, match="no answer of AWS's"):
        await provider.launch(wanting())
    with pytest.raises(Uncertain, match="no answer of AWS's"):
        await listed(provider)


async def test_without_an_answer_about_the_credentials_nothing_else_is_asked(region: Region) -> None:
    findings = await found(region, endpoint_url="http://127.0.0.1:1")
    (finding,) = findings.values()
    assert (finding.subject, finding.level) == ("ec2 credentials", Level.FAILED)


async def test_an_account_that_is_not_the_credentials_own_is_told(region: Region) -> None:
    findings = await found(region, account="999999999999")
    assert "999999999999" in findings["ec2 account"].words and findings["ec2 account"].level is Level.FAILED


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ({"image": "ami-0000000000000dead"}, "InvalidAMIID.NotFound"),
        ({"subnets": ("subnet-0000000000000dead",)}, "InvalidSubnetID.NotFound"),
        ({"subnets": (SUBNETS[1], "subnet-000000000000000b2")}, "both in eu-west-1b"),
        ({"security_groups": ("sg-0000000000000dead",)}, "InvalidGroup.NotFound"),
    ],
)
async def test_what_a_template_names_and_ec2_does_not_have_is_told(
    region: Region, wrong: dict[str, Any], why: str
) -> None:
    finding = (await found(region, template(**wrong)))["template work"]
    assert finding.level is Level.FAILED and why in finding.words
    assert finding.advice == "correct [templates.work.ec2]"


@pytest.mark.parametrize(
    "action", ["CreateFleet", "CreateLaunchTemplate", "RunInstances", "DescribeInstances"]
)
async def test_each_missing_permission_is_told_with_the_way_to_get_it(
    region: Region, fake: FakeEc2, action: str
) -> None:
    fake.faults.denied = frozenset({action})
    finding = (await found(region))["template work permission"]
    assert finding.level is Level.FAILED
    assert action in finding.words and "muster iam" in finding.advice


async def test_a_right_that_only_spot_lacks_is_told_for_templates_that_use_spot(
    region: Region, fake: FakeEc2
) -> None:
    fake.faults.denied = frozenset({"RunInstances of spot"})
    assert "template work permission" not in await found(region)
    for usage in ((UsageClass.SPOT,), (UsageClass.ON_DEMAND, UsageClass.SPOT)):
        finding = (await found(region, replace(template(), usage=usage)))["template work permission"]
        assert finding.level is Level.FAILED and "RunInstances" in finding.words


async def test_whatever_else_ec2_has_against_a_trial_is_told(region: Region, fake: FakeEc2) -> None:
    fake.faults.fail("RunInstances", "InvalidParameterValue", "Invalid IAM Instance Profile name")
    fake.faults.throttle("CreateFleet")
    findings = await found(region)
    for verb, why in (("run_instances", "Instance Profile"), ("create_fleet", "RequestLimitExceeded")):
        finding = findings[f"template work {verb}"]
        assert finding.level is Level.WARNING and why in finding.words


async def test_rights_that_hang_on_a_tag_are_a_warning_that_says_why(region: Region, fake: FakeEc2) -> None:
    fake.faults.own_tag = ("muster:installation", "inst-1")
    bad = [each for each in (await found(region)).values() if each.level is not Level.OK]
    verbs = ["create_launch_template_version", "get_console_output", "terminate_instances"]
    assert [each.subject.rpartition(" ")[2] for each in bad] == verbs
    for each in bad:
        assert each.level is Level.WARNING and "muster iam" in each.advice
        assert "the tag conditions that" in each.words


async def test_a_quota_below_what_the_templates_may_use_is_a_warning(region: Region, fake: FakeEc2) -> None:
    both = TemplateSpec(
        name="both",
        provider="ec2",
        resource_class="xlarge",
        max_nodes=10,
        usage=(UsageClass.SPOT, UsageClass.ON_DEMAND),
        tables={"ec2": spec()},
    )
    fake.faults.quotas = {QUOTAS[UsageClass.SPOT]: 39.0, QUOTAS[UsageClass.ON_DEMAND]: 40.0}
    findings = await found(region, both)
    spot, on_demand = findings["ec2 quota spot"], findings["ec2 quota on-demand"]
    assert spot.level is Level.WARNING and "need 40" in spot.words
    assert on_demand.level is Level.OK


# --- policies ---------------------------------------------------------------------------------------------


def allowed(policy: policies.Policy) -> set[str]:
    return {action.partition(":")[2] for each in policy["Statement"] for action in each["Action"]}


async def test_the_policy_allows_every_action_that_is_ever_used(
    region: Region, provider: Ec2Provider, fake: FakeEc2
) -> None:
    await found(region, template(security_groups=("sg-00000000000000001",)))
    answer = await provider.launch(wanting())
    await provider.launch(wanting("t2", template=template(hop_limit=2)))
    await provider.find("t1")
    await listed(provider)
    await provider.console(ids(answer)[0], lines=3)
    await provider.terminate(ids(answer))
    used = {action for _, action in fake.calls} - {"GetCallerIdentity"}  # which needs no right
    rights = allowed(policies.for_server([template()], installation_id="inst-1", region="eu-west-1"))
    assert used <= rights
    implied = {"CreateTags", "CreateServiceLinkedRole"}  # AWS asks for these while it makes a fleet
    assert rights - implied == named(Path(policies.__file__).parent, "ec2", "service-quotas")


def test_what_a_spot_launch_makes_beside_machines_may_be_made() -> None:
    policy = policies.for_server([template()], installation_id="inst-1", region="eu-west-1")
    (made_from,) = (each for each in policy["Statement"] if each["Sid"] == "MakeFromThese")
    assert "arn:aws:ec2:eu-west-1:*:spot-instances-request/*" in made_from["Resource"]


def test_what_ends_or_changes_things_is_tied_to_the_installation() -> None:
    policy = policies.for_server([template()], installation_id="inst-1", region="eu-west-1")
    for statement in policy["Statement"]:
        if {"ec2:TerminateInstances", "ec2:CreateLaunchTemplateVersion"} & set(statement["Action"]):
            assert statement["Condition"] == {
                "StringEquals": {"aws:ResourceTag/muster:installation": "inst-1"}
            }
            assert all(":eu-west-1:" in each for each in statement["Resource"])
    assert "iam:PassRole" not in json.dumps(policy)


@pytest.mark.parametrize(
    ("profile", "region", "account", "role"),
    [
        ("ci", "eu-west-1", "123456789012", "arn:aws:iam::123456789012:role/ci"),
        ("ci", "us-gov-east-1", "", "arn:aws-us-gov:iam::*:role/ci"),
        ("ci", "cn-north-1", "", "arn:aws-cn:iam::*:role/ci"),
        (
            "arn:aws:iam::123456789012:instance-profile/build/ci",
            "eu-west-1",
            "",
            "arn:aws:iam::123456789012:role/build/ci",
        ),
    ],
)
def test_the_roles_of_the_templates_profiles_may_be_given_to_machines_and_no_others(
    profile: str, region: str, account: str, role: str
) -> None:
    given = [template(), template(instance_profile=profile), template(instance_profile=profile)]
    policy = policies.for_server(given, installation_id="", region=region, account=account)
    (statement,) = [each for each in policy["Statement"] if "iam:PassRole" in each["Action"]]
    assert statement["Resource"] == [role]
    assert "ec2.amazonaws.com" in statement["Condition"]["StringEquals"]["iam:PassedToService"]


@pytest.mark.parametrize(
    ("region", "partition"),
    [("eu-west-1", "aws"), ("*", "aws"), ("us-gov-west-1", "aws-us-gov"), ("cn-northwest-1", "aws-cn")],
)
def test_arns_are_of_the_region_s_partition(region: str, partition: str) -> None:
    policy = policies.for_server([], installation_id="inst-1", region=region)
    arns = [each for row in policy["Statement"] for each in row["Resource"] if each != "*"]
    assert {each.split(":")[1] for each in arns} == {partition}


def test_before_there_is_an_installation_any_is_meant() -> None:
    policy = policies.for_server([template()], installation_id="", region="*")
    assert '"StringLike": {"aws:ResourceTag/muster:installation": "*"}' in json.dumps(policy)


def test_a_node_may_do_nothing_at_all() -> None:
    (statement,) = policies.for_nodes()["Statement"]
    assert (statement["Effect"], statement["Action"]) == ("Deny", "*")
