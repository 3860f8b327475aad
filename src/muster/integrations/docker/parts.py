"""The parts of this adapter, put together for a server."""

import logging
from collections.abc import Sequence
from contextlib import suppress

import muster.agent
from muster.domain import node as nodes
from muster.domain.errors import Conflict
from muster.domain.lifecycle import NodeState
from muster.integration import Parts, Site
from muster.integrations.docker import body
from muster.integrations.docker.identity import DockerVerifier
from muster.integrations.docker.provider import DockerProvider
from muster.integrations.docker.spec import DOCKER
from muster.integrations.docker.starter import Advance
from muster.integrations.docker.tables import EngineConfig
from muster.ports.duties import Duty

logger = logging.getLogger(__name__)

RESUME_EVERY = 5.0


async def connect(site: Site) -> Parts:
    configs: Sequence[EngineConfig] = site.tables[DOCKER]
    for config in configs:
        why = config.unreachable(site.urls)
        if why:
            logger.warning(why)
    provider = DockerProvider(
        configs,
        installation_id=site.installation_id,
        servers=site.urls,
        dead_man=site.dead_man,
        clock=site.clock,
        ids=site.ids,
        advance=boot_phases(site),
    )
    verifier = DockerVerifier(provider.engines, installation_id=site.installation_id)
    resume = Duty(name="containers", every=RESUME_EVERY, work=provider)
    return Parts(
        providers=(provider,),
        verifiers={DOCKER: verifier},
        endings=(provider,),
        starts_with={DOCKER: lambda _spec: f"{body.START}\n{muster.agent.source()}"},
        unisolated={DOCKER: "jobs there are the same user as the agent"},
        duties=lambda _given: (resume,),
        close=provider.close,
    )


def boot_phases(site: Site) -> Advance:
    """Phases of a boot before there is an agent to report them."""

    async def advance(machine_id: str, phase: str, step: str) -> None:
        node = await site.store.node_by_machine(DOCKER, machine_id)
        if node is None or node.state is not NodeState.CREATED or node.joined_at is not None:
            return
        change = nodes.advanced(node, phase=phase, step=step, now=site.clock.now())
        with suppress(Conflict):  # its agent, or its deadline, was faster
            if change is not None:
                await site.store.apply(change)

    return advance
