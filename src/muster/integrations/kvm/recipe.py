"""What a snapshot is made from, and the key that changes with it."""

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path

from muster.domain.serialization import to_plain
from muster.integrations.kvm.qemu import Hardware
from muster.integrations.kvm.tables import Accelerator


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """What a snapshot is made from."""

    template: str
    hardware: Hardware
    version: str
    """QEMU's."""
    script: str

    @property
    def group(self) -> str:
        name = f"{self.template}/{self.hardware.size.name}"
        return hashlib.sha256(name.encode()).hexdigest()[:16]

    @property
    def key(self) -> str:
        """Return the key. Raises OSError if a file can't be looked at."""
        files = [_facts(path) for path in self.hardware.spec.files]
        host = Path("/proc/cpuinfo").read_text().partition("\n\n")[0] if self._on_host_processor else ""
        parts = [self.version, to_plain(self.hardware), self.script, files, _without_load(host)]
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:24]

    @property
    def _on_host_processor(self) -> bool:
        return self.hardware.accelerator is Accelerator.KVM


def _facts(path: str) -> tuple[str, int, int, int]:
    found = Path(path).stat()
    return path, found.st_ino, found.st_size, found.st_mtime_ns


def _without_load(processor: str) -> list[str]:
    """Leave out what changes while the machine runs."""
    return [line for line in processor.splitlines() if not line.startswith("cpu MHz")]
