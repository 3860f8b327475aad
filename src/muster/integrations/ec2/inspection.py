"""What can be found out about an EC2 set-up without launching anything: looks, and dry runs of the rest."""

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

from muster.domain.errors import MusterError, Refused
from muster.domain.ids import LaunchId
from muster.domain.template import TemplateSpec, UsageClass
from muster.integration import Check
from muster.integrations.ec2 import fleet, launch_templates, user_data
from muster.integrations.ec2.api import Aws
from muster.integrations.ec2.errors import (
    DENIED,
    NO_LAUNCH_TEMPLATE,
    UNKNOWN_MACHINE,
    AwsError,
    NoAnswer,
    NotAsked,
)
from muster.integrations.ec2.launch_templates import LaunchTemplates
from muster.integrations.ec2.placement import Placements
from muster.integrations.ec2.provider import agent, spec_of
from muster.integrations.ec2.sizes import Fit, Sizes
from muster.integrations.ec2.tables import Ec2Settings
from muster.ports.provider import LaunchRequest

NO_MACHINE = "i-00000000000000000"
DRY = "DryRunOperation"
ON_WHAT_IS_MADE = ("create_launch_template_version", "get_console_output", "terminate_instances")
"""Tried on what may not exist, as long as nothing was launched."""
NOT_THERE_YET = (*UNKNOWN_MACHINE, *NO_LAUNCH_TEMPLATE)
"""AWS looks for permissions before it looks for what they are about."""
QUOTAS = {UsageClass.ON_DEMAND: "L-1216C47A", UsageClass.SPOT: "L-34B43A08"}
"""Processors of standard instances that may run at once."""
SHOWN_TYPES = 5
_FAILURES = (AwsError, NoAnswer, NotAsked)


class Inspection:
    def __init__(self, settings: Ec2Settings, aws: Aws) -> None:
        self._settings = settings
        self._aws = aws
        self._survey = Placements(aws)
        self._sizes = Sizes(aws)

    async def findings(self, templates: Sequence[TemplateSpec]) -> AsyncIterator[Check]:
        try:
            who = await self._aws.read("get_caller_identity", service="sts")
        except _FAILURES as error:
            advice = "give the server credentials as every AWS SDK finds them: environment, profile or role"
            yield Check.failed("ec2 credentials", str(error), advice)
            return
        yield Check.ok("ec2 credentials", f"{who['Arn']} in {self._settings.region}")
        if self._settings.account and self._settings.account != who["Account"]:
            words = f"ec2.account is {self._settings.account}, and the credentials are of {who['Account']}"
            advice = "set ec2.account to where the machines are, or leave it out"
            yield Check.failed("ec2 account", words, advice)
        for template in templates:
            async for finding in self._template(template):
                yield finding
        async for finding in self._quotas(templates):
            yield finding

    async def _template(self, template: TemplateSpec) -> AsyncIterator[Check]:
        subject = f"template {template.name}"
        try:
            place = await self._survey.place(spec_of(template))
            await self._groups(template)
        except (Refused, *_FAILURES) as error:
            words = str(error).removeprefix("cannot launch: ")
            yield Check.failed(subject, words, f"correct [templates.{template.name}.ec2]")
            return
        yield Check.ok(subject, f"image and groups are there, subnets in {', '.join(place.zones)}")
        asked = _example(template, self._settings.installation_id)
        try:
            fit = await self._sizes.fit(asked, spec_of(template))
        except (Refused, *_FAILURES) as error:
            words = str(error).removeprefix("cannot launch: ")
            yield Check.failed(f"{subject} instance types", words, f"correct [templates.{template.name}]")
            return
        yield _chosen(f"{subject} instance types", asked, fit)
        try:
            dead_man = self._settings.dead_man(template)
            script = user_data.script(agent(), servers=self._settings.servers, dead_man=dead_man)
            content = launch_templates.content(asked, spec_of(template), script=script, place=place)
        except MusterError as error:
            yield Check.failed(f"{subject} user data", str(error), "make it smaller")
            return
        yield await self._kept(subject, content)
        for verb, given in _dry_runs(asked, content, fit):
            finding = await self._may(subject, verb, given)
            if finding is not None:
                yield finding

    async def _groups(self, template: TemplateSpec) -> None:
        groups = list(spec_of(template).security_groups)
        if groups:
            await self._aws.read("describe_security_groups", GroupIds=groups)

    async def _kept(self, subject: str, content: launch_templates.Content) -> Check:
        try:
            number = await LaunchTemplates(self._aws).found(content)
        except _FAILURES as error:
            return Check.failed(f"{subject} launch template", str(error), "see `muster iam`")
        words = f"{content.name} has it as version {number}" if number else "is made at the first launch"
        return Check.ok(f"{subject} launch template", words)

    async def _may(self, subject: str, verb: str, given: Mapping[str, Any]) -> Check | None:
        """Return why a call would be denied, or None if it would be allowed, as far as that is known now."""
        try:
            await self._aws.read(verb, DryRun=True, **given)
        except AwsError as error:
            if error.code in DENIED:
                return _denied(f"{subject} permission", verb, str(error))
            if error.code == DRY or error.code in NOT_THERE_YET:
                return None
            words = f"{verb}: a trial of it is refused ({error})"
            advice = "it may be about the trial alone; else correct what the template names"
            return Check.warning(f"{subject} {verb}", words, advice)
        except (NoAnswer, NotAsked) as error:
            return Check.warning(f"{subject} permission", f"{verb}: {error}")
        return None

    async def _quotas(self, templates: Sequence[TemplateSpec]) -> AsyncIterator[Check]:
        for usage, code in QUOTAS.items():
            wanted = sum(
                each.max_nodes * each.size(each.resource_class).cpu
                for each in templates
                if usage in each.usage
            )
            if wanted:
                yield await self._quota(usage, code, wanted)

    async def _quota(self, usage: UsageClass, code: str, wanted: int) -> Check:
        subject = f"ec2 quota {usage}"
        try:
            answer = await self._aws.read(
                "get_service_quota", service="service-quotas", ServiceCode="ec2", QuotaCode=code
            )
        except _FAILURES as error:
            advice = "allow servicequotas:GetServiceQuota, or look it up in the console"
            return Check.warning(subject, str(error), advice)
        allowed = int(answer["Quota"]["Value"])
        words = f"{allowed} processors, and the templates' max_nodes need {wanted}"
        if wanted > allowed:
            advice = f"ask AWS to raise quota {code}, or lower max_nodes"
            return Check.warning(subject, words, advice)
        return Check.ok(subject, words)


def _denied(subject: str, verb: str, why: str) -> Check:
    advice = "give the server's credentials the policy that `muster iam` prints"
    if verb not in ON_WHAT_IS_MADE:
        return Check.failed(subject, f"{verb}: {why}", advice)
    words = (
        f"{verb}: can't be checked without a machine of this installation: the tag conditions that "
        f"`muster iam` prints deny the call ({why})"
    )
    return Check.warning(f"{subject} {verb}", words, advice)


def _example(template: TemplateSpec, installation_id: str) -> LaunchRequest:
    return LaunchRequest(
        token="muster-doctor",  # noqa: S106 — of a launch that is never made
        launch_id=LaunchId("doctor"),
        installation_id=installation_id,
        template=template,
        revision=1,
        resource_class=template.size(template.resource_class),
        usage_class=template.usage[0],
        instance_types=template.instance_types,
        count=1,
    )


def _chosen(subject: str, asked: LaunchRequest, fit: Fit) -> Check:
    size = asked.resource_class
    if not fit.types:
        words = "can't be checked: the credentials lack ec2:GetInstanceTypesFromInstanceRequirements"
        advice = "give the server's credentials the policy that `muster iam` prints"
        return Check.warning(subject, words, advice)
    more = f" and {len(fit.types) - SHOWN_TYPES} more" if len(fit.types) > SHOWN_TYPES else ""
    words = f"{size.name} ({size.cpu} cpu, {size.memory_mib} MiB): {', '.join(fit.types[:SHOWN_TYPES])}{more}"
    if fit.cpu_most > size.cpu:
        words += f"; no type has exactly {size.cpu} cpu, so up to {fit.cpu_most} will do"
    return Check.ok(subject, words)


def _dry_runs(
    asked: LaunchRequest, content: launch_templates.Content, fit: Fit
) -> Sequence[tuple[str, Mapping[str, Any]]]:
    spec = spec_of(asked.template)
    created = {"LaunchTemplateName": content.name, "LaunchTemplateData": content.data}
    run = {
        "MinCount": 1,
        "MaxCount": 1,
        "ImageId": spec.image,
        "SubnetId": spec.subnets[0],
        "TagSpecifications": _fleet(asked, content, fit)["TagSpecifications"][1:],
        **({"IamInstanceProfile": profile} if (profile := content.data.get("IamInstanceProfile")) else {}),
    }
    return (
        ("create_launch_template", {**created, "TagSpecifications": content.tags}),
        ("create_launch_template_version", created),
        ("create_fleet", _fleet(asked, content, fit)),
        *(("run_instances", {**run, **_MARKET[usage]}) for usage in asked.template.usage),
        ("describe_instances", {}),
        ("get_console_output", {"InstanceId": NO_MACHINE}),
        ("terminate_instances", {"InstanceIds": [NO_MACHINE]}),
    )


_MARKET: Mapping[UsageClass, Mapping[str, Any]] = {
    UsageClass.SPOT: {"InstanceMarketOptions": {"MarketType": "spot"}},
    UsageClass.ON_DEMAND: {},
}
"""A right to launch one is no right to launch the other: spot needs spot-instances-request, too."""


def _fleet(asked: LaunchRequest, content: launch_templates.Content, fit: Fit) -> dict[str, Any]:
    return fleet.request(
        asked, spec_of(asked.template), launch_template=content.name, version=1, cpu_most=fit.cpu_most
    )
