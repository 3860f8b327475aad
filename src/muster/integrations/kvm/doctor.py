"""What `muster doctor` says about microVMs: QEMU, the accelerator, the files of templates, snapshots."""

import os
from collections.abc import Iterator
from pathlib import Path

from muster.integration import Check, Level, Machine
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
        yield Check(subject=KVM, level=Level.FAILED, words=words, advice="set capacity under [kvm]")
    found = version(settings.qemu)
    if not found:
        words = f"{settings.qemu} can't be run"
        yield Check(subject=KVM, level=Level.FAILED, words=words, advice=INSTALL)
        return
    yield Check(subject=KVM, level=Level.OK, words=found)
    yield _accelerator(settings)
    for template in templates:
        for path in TEMPLATE.of(template).files:
            if not Path(path).is_file() or not os.access(path, os.R_OK):
                words = f"template {template.name}: {path} is no file that this user can read"
                yield Check(subject=KVM, level=Level.FAILED, words=words, advice="see docs/kvm.md")
    yield from _snapshots(snapshots_of(settings.directory or machine.data / "nodes" / KVM))


def _snapshots(root: Path) -> Iterator[Check]:
    for report in reports(root):
        name = f"template {report['template']}, class {report['class']}"
        if report["why"]:
            words = f"{name}: there is no snapshot, so machines boot: {report['why']}"
            yield Check(subject=KVM, level=Level.WARNING, words=words, advice=NO_SNAPSHOT)
        else:
            words = f"{name}: machines start from a snapshot, made in {report['took']:.0f} s"
            yield Check(subject=KVM, level=Level.OK, words=words)


def _accelerator(settings: KvmConfig) -> Check:
    wanted = Accelerator(settings.accelerator)
    no_kvm = "" if wanted is Accelerator.TCG else why_not(settings.qemu, Accelerator.KVM)
    if wanted is not Accelerator.TCG and not no_kvm:
        return Check(subject=KVM, level=Level.OK, words="KVM works: a tiny machine ran")
    if wanted is Accelerator.KVM:
        return Check(subject=KVM, level=Level.FAILED, words=f"KVM doesn't work: {no_kvm}", advice=EMULATED)
    no_tcg = why_not(settings.qemu, Accelerator.TCG)
    if no_tcg:
        words = f"machines can't be run: {no_tcg}"
        return Check(subject=KVM, level=Level.FAILED, words=words, advice=INSTALL)
    if wanted is Accelerator.TCG:
        return Check(subject=KVM, level=Level.OK, words="software emulation works: a tiny machine ran")
    words = f"KVM doesn't work ({no_kvm}); machines are emulated, which is slow"
    return Check(subject=KVM, level=Level.WARNING, words=words, advice=EMULATED)
