"""The settings [kvm] and the table [templates.NAME.kvm]."""

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from muster.config import values
from muster.config.tables import Table, TemplateTable
from muster.domain import checks
from muster.domain.errors import InvalidRequest
from muster.domain.reasons import Reason

KVM = "kvm"
QEMU = "qemu-system-x86_64"
CMDLINE_MOST = 1024
_PATH_MOST = 1024


class Accelerator(StrEnum):
    AUTO = "auto"
    """KVM where it works, else emulation."""
    KVM = "kvm"
    TCG = "tcg"
    """QEMU's software emulation: works on any machine, and takes several times as long."""


class Format(StrEnum):
    RAW = "raw"
    QCOW2 = "qcow2"


@dataclass(frozen=True, slots=True, kw_only=True)
class KvmConfig:
    capacity: int = 0
    """MicroVMs that fit on this machine. 0: there is no such provider."""
    accelerator: str = Accelerator.AUTO.value
    qemu: str = QEMU
    """The program: a name in PATH, or a path."""
    directory: Path | None = None
    """Where they are kept; replicas on this machine share it. None: in the data directory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KvmSpec:
    kernel: str
    root: str
    """The image of the root file system. Machines never write to it."""
    initrd: str = ""
    format: Format = Format.RAW
    cmdline: str = ""
    """Added to the kernel's command line."""
    snapshot: bool = True
    """Whether machines start as copies of one that has booted."""

    def __post_init__(self) -> None:
        for name in ("kernel", "root", "initrd"):
            value = getattr(self, name)
            text = checks.text(f"kvm.{name}", value, longest=_PATH_MOST) if value or name != "initrd" else ""
            if text and not text.startswith("/"):
                raise InvalidRequest(f"kvm.{name}", value, "must be an absolute path on the server's machine")
            # QEMU reads a comma as the end of a value.
            if not text.isprintable() or "," in text:
                raise InvalidRequest(f"kvm.{name}", value, "must have neither commas nor control characters")
        checks.word("kvm.format", self.format, Format)
        if len(self.cmdline) > CMDLINE_MOST or not self.cmdline.isprintable():
            rule = f"must be at most {CMDLINE_MOST} printable characters"
            raise InvalidRequest("kvm.cmdline", self.cmdline, rule)

    @property
    def files(self) -> tuple[str, ...]:
        return tuple(filter(None, (self.kernel, self.initrd, self.root)))


SETTINGS = Table(
    kind=KvmConfig,
    keys={
        "capacity": values.whole(0, 10_000),
        "accelerator": values.known(*Accelerator),
    },
)
TEMPLATE = TemplateTable(
    name=KVM,
    kind=KvmSpec,
    provider=KVM,
    needs=("kernel", "root"),
)

ADVICE: dict[Reason, str] = {
    Reason.CAPACITY: "ask for fewer nodes, release some, or raise capacity under [kvm]",
    Reason.PARTIAL_LAUNCH: "try again, or ask for fewer nodes; Muster ended the machines that it started",
    Reason.MACHINE_GONE: "read the console: `muster nodes diagnosis NODE`; the machine was powered off, or"
    " its QEMU process ended",
    Reason.PROVIDER_REFUSED: "run `muster doctor` on this machine, and check kernel and root of the template",
    Reason.PROVIDER_ERROR: "run `muster doctor` on this machine: it starts a tiny machine and says why not",
}
