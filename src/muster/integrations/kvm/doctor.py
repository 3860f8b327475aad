"""What `muster doctor` says about microVMs: QEMU, the accelerator, the files of templates, snapshots."""

import os
from collections.abc import Iterator
from pathlib import Path

from muster.integration import Check, Machine
from muster.integrations.kvm.accelerators import version, why_not
from muster.integrations.kvm.snapshots import reports, snapshots_of
from muster.integrations.kvm.tables import KVM, TEMPLATE, Accelerator, KvmConfig

INSTALL = "install QEMU: apt-get install qemu-system-x86"
NO_SNAPSHOT = "mend the cause, or set snapshot = false in the template; see docs/kvm.md#snapshots"
EMULATED = "give this user the right to use /dev/kvm (group kvm); in a cloud, use a machine type that has it"


def checks(machine: Machine) -> Iterator[Check]:
    settings: KvmConfig = machine.config.tables[KVM]
    templates = [each for each in machine.config.templates if each.provider == KVM]
    if not settings.capacity and not templates:
        return
    if not settings.capacity:
        words = f"template {templates[0].name} uses the provider kvm, but its capacity is 0"
        yield Check.failed(KVM, words, "set capacity under [kvm]")
    found = version(settings.qemu)
    if not found:
        yield Check.failed(KVM, f"{settings.qemu} can't be run", INSTALL)
        return
    yield Check.ok(KVM, found)
    yield _accelerator(settings)
    for template in templates:
        for path in TEMPLATE.of(template).files:
            if not Path(path).is_file() or not os.access(path, os.R_OK):
                words = f"template {template.name}: {path} is no file that this user can read"
                yield Check.failed(KVM, words, "see docs/kvm.md")
    yield from _snapshots(snapshots_of(settings.directory or machine.data / "nodes" / KVM))


def _snapshots(root: Path) -> Iterator[Check]:
    for report in reports(root):
        name = f"template {report['template']}, class {report['class']}"
        if report["why"]:
            words = f"{name}: there is no snapshot, so machines boot: {report['why']}"
            yield Check.warning(KVM, words, NO_SNAPSHOT)
        else:
            yield Check.ok(KVM, f"{name}: machines start from a snapshot, made in {report['took']:.0f} s")


def _accelerator(settings: KvmConfig) -> Check:
    wanted = Accelerator(settings.accelerator)
    no_kvm = "" if wanted is Accelerator.TCG else why_not(settings.qemu, Accelerator.KVM)
    if wanted is not Accelerator.TCG and not no_kvm:
        return Check.ok(KVM, "KVM works: a tiny machine ran")
    if wanted is Accelerator.KVM:
        return Check.failed(KVM, f"KVM doesn't work: {no_kvm}", EMULATED)
    no_tcg = why_not(settings.qemu, Accelerator.TCG)
    if no_tcg:
        return Check.failed(KVM, f"machines can't be run: {no_tcg}", INSTALL)
    if wanted is Accelerator.TCG:
        return Check.ok(KVM, "software emulation works: a tiny machine ran")
    return Check.warning(KVM, f"KVM doesn't work ({no_kvm}); machines are emulated, which is slow", EMULATED)
