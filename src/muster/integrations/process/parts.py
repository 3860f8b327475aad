"""The parts of this adapter, put together for a server."""

import logging

import muster.agent
from muster.domain.template import TemplateSpec
from muster.integration import Parts, Site
from muster.integrations.process import provider as providers
from muster.integrations.process.isolation_report import Report
from muster.integrations.process.sandbox import Isolation
from muster.integrations.process.tables import TEMPLATE, Demand, Home
from muster.ports.provider import UnmetRequirement
from muster.slot_provider.provider import SlotVerifier

logger = logging.getLogger(__name__)


async def connect(site: Site) -> Parts:
    settings = site.tables["process"]
    directory = settings.directory or site.nodes
    provider = providers.ProcessProvider(
        directory,
        installation_id=site.installation_id,
        servers=site.urls,
        capacity=settings.capacity,
        isolation=Isolation(settings.isolation),
        hidden=site.hidden,
    )
    report = await provider.report()
    if report.notice:
        logger.warning(report.notice, extra={"provider": provider.name})
    unisolated = {provider.name: report.notice} if report.isolation is Isolation.NONE else {}
    if not settings.capacity:
        return Parts(unisolated=unisolated)
    return Parts(
        providers=(provider,),
        verifiers={
            provider.name: SlotVerifier(provider.name, directory, installation_id=site.installation_id)
        },
        endings=(provider,),
        starts_with={provider.name: lambda _spec: muster.agent.source()},
        unisolated=unisolated,
        lacks=lambda spec: unmet_requirement(spec, provider.name, report),
    )


def unmet_requirement(spec: TemplateSpec, provider: str, report: Report) -> UnmetRequirement | None:
    if spec.provider != provider:
        return None
    asked = TEMPLATE.of(spec)
    if asked.isolation is Demand.SANDBOX and report.isolation is Isolation.NONE:
        return UnmetRequirement(
            field="process",
            why=f'its isolation = "sandbox" demands one, and {provider} has none here '
            f"({report.notice}): run `muster doctor` on the server, or leave it out",
        )
    if asked.home is Home.OVERLAY and report.no_overlay:
        return UnmetRequirement(
            field="process",
            why=f'its home = "overlay" can\'t be mounted here ({report.no_overlay}): '
            'use "read-only", and let jobs copy what they change',
        )
    return None
