"""The parts of this adapter, put together for a server."""

import asyncio
import logging

from muster.integration import Parts, Site
from muster.integrations.kvm.accelerators import choose
from muster.integrations.kvm.provider import KvmProvider
from muster.integrations.kvm.tables import KVM, Accelerator, KvmConfig
from muster.slot_provider.provider import SlotVerifier

logger = logging.getLogger(__name__)


async def connect(site: Site) -> Parts:
    settings: KvmConfig = site.tables[KVM]
    directory = settings.directory or site.nodes / KVM
    accelerator, trouble = await asyncio.to_thread(choose, settings.qemu, Accelerator(settings.accelerator))
    if trouble:
        words = f"microVMs don't work here: {trouble}. Run `muster doctor` on this machine"
        logger.warning(words, extra={"provider": KVM})
    provider = KvmProvider(
        directory,
        installation_id=site.installation_id,
        servers=site.urls,
        capacity=settings.capacity,
        qemu=settings.qemu,
        accelerator=accelerator,
        dead_man=site.dead_man,
    )
    return Parts(
        providers=(provider,),
        verifiers={KVM: SlotVerifier(KVM, directory, installation_id=site.installation_id)},
        endings=(provider,),
        starts_with={KVM: provider.starts_with},
        unisolated={KVM: "jobs there are root in the machine, and the next run gets the same machine"},
    )
