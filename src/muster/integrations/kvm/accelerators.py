"""Find out by starting a tiny machine whether QEMU and an accelerator work here.

/dev/kvm may exist and not work, e.g. inside another virtual machine. So the probe runs one: its firmware of
64 KiB writes a number to the device that ends QEMU with it.
"""

import subprocess
import tempfile
from pathlib import Path
from shutil import which

from muster.integrations.kvm.qemu import bare
from muster.integrations.kvm.tables import Accelerator

PATIENCE = 10.0
_ROM_SIZE = 1 << 16
_RESET = _ROM_SIZE - 16
_NUMBER = 0x10
_PORT = 0xF4
_CODE = bytes([0xB0, _NUMBER, 0xE6, _PORT, 0xF4])
"""mov al, NUMBER; out PORT, al; hlt"""
_WORKS = _NUMBER << 1 | 1
_DEVICE = f"isa-debug-exit,iobase={_PORT:#x},iosize=4"


def why_not(qemu: str, accelerator: Accelerator) -> str:
    """Say why machines can't run with this accelerator; empty if they can."""
    if which(qemu) is None:
        return f"{qemu} is not installed"
    with tempfile.TemporaryDirectory(prefix="muster-probe-") as scratch:
        rom = Path(scratch) / "rom"
        rom.write_bytes((bytes(_RESET) + _CODE).ljust(_ROM_SIZE, b"\0"))
        argv = [*bare(qemu, accelerator), "-m", "16M", "-bios", str(rom), "-device", _DEVICE]
        try:
            done = subprocess.run(  # noqa: S603  # the operator's own program
                argv, stdin=subprocess.DEVNULL, capture_output=True, timeout=PATIENCE, check=False
            )
        except subprocess.TimeoutExpired:
            return f"a tiny machine did not end within {PATIENCE:g} s"
        except OSError as error:
            return f"{qemu} can't be started: {error}"
    if done.returncode == _WORKS:
        return ""
    said = done.stderr.decode("utf-8", "replace").strip().splitlines()
    return said[0] if said else f"a tiny machine ended with status {done.returncode}"


def choose(qemu: str, wanted: Accelerator) -> tuple[Accelerator, str]:
    """Return the accelerator to use, and what an operator should know about it."""
    if wanted is not Accelerator.AUTO:
        return wanted, why_not(qemu, wanted)
    no_kvm = why_not(qemu, Accelerator.KVM)
    if not no_kvm:
        return Accelerator.KVM, ""
    no_tcg = why_not(qemu, Accelerator.TCG)
    if no_tcg:
        return Accelerator.TCG, no_tcg
    return Accelerator.TCG, ""


def version(qemu: str) -> str:
    """Return the first line of `qemu --version`; empty if it says none."""
    try:
        done = subprocess.run(  # noqa: S603  # the operator's own program
            [qemu, "--version"], capture_output=True, timeout=PATIENCE, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.decode("utf-8", "replace").partition("\n")[0]
