"""Instances as processes: user data runs for real, as a local process that believes to be a machine.

Sandboxed with bubblewrap where that works: own processes, users, places in /var/lib and console, and a
`shutdown` that reaches the fake. Without it the places that user data writes to are rewritten to a directory
of its own.
"""

import base64
import gzip
import os
import shutil
import signal
import subprocess
from pathlib import Path

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
STATE = "/var/lib/muster"
CLOUD_INIT = "/var/lib/cloud"
PER_BOOT = "scripts/per-boot"
CONSOLE = "/dev/console"
INSIDE = "/run/fake"
ETC = "/run/etc"
CONSOLE_MOST = 65_536
SHUTDOWN = '#!/bin/sh\necho off >"$FAKE_POWER"\n'


def readable(user_data: str) -> str:
    """Decode user data as cloud-init does: base64, and gzip if it is that."""
    data = base64.b64decode(user_data)
    return (gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data).decode()


class Machine:
    """One directory, one process tree."""

    def __init__(self, directory: Path, *, metadata: str, sandboxed: bool) -> None:
        self._directory = directory
        self._metadata = metadata
        self._sandboxed = sandboxed
        self._copies = 0
        directory.mkdir(parents=True)
        (directory / "console").touch()
        tools = directory / "tools"
        tools.mkdir()
        for name in ("shutdown", "poweroff"):
            (tools / name).write_text(SHUTDOWN)
            (tools / name).chmod(0o755)
        os.mkfifo(tools / "power")
        self.power = os.open(tools / "power", os.O_RDWR | os.O_NONBLOCK)
        """Readable once the machine powers itself off."""
        self._processes: list[subprocess.Popen[bytes]] = []

    def start(self, user_data: str) -> None:
        """Start the machine; again: a copy, with a disk of its own and the same identity."""
        self._copies += 1
        disk = self.disk
        disk.mkdir()
        self._cloud_init.mkdir()
        program = self._directory / "tools" / "user-data"
        text = readable(user_data)
        if not self._sandboxed:
            text = text.replace(STATE, str(disk)).replace(CONSOLE, str(self._directory / "console"))
            text = text.replace(CLOUD_INIT, str(self._cloud_init))
        program.write_text(text)
        program.chmod(0o755)
        self._boot()

    def reboot(self) -> None:
        """Restart the newest copy: everything ends, and cloud-init runs only the per-boot part of its
        disk."""
        self.kill()
        there = CLOUD_INIT if self._sandboxed else str(self._cloud_init)
        program = self._directory / "tools" / "user-data"
        program.write_text(f'#!/bin/sh\nfor each in {there}/{PER_BOOT}/*; do "$each"; done\n')
        self._boot()

    def _boot(self) -> None:
        with (self._directory / "console").open("ab") as console:
            process = subprocess.Popen(
                self._command(self.disk),
                env=self._environment(),
                stdin=subprocess.DEVNULL,
                stdout=console,
                stderr=console,
                start_new_session=True,
                cwd="/",
            )
        self._processes.append(process)

    @property
    def disk(self) -> Path:
        """Return the directory that the newest copy writes to."""
        return self._directory / f"disk-{self._copies}"

    @property
    def _cloud_init(self) -> Path:
        return self._directory / f"cloud-init-{self._copies}"

    def _command(self, disk: Path) -> list[str]:
        tools = INSIDE if self._sandboxed else str(self._directory / "tools")
        # Cloud-init's script ends; the machine goes on.
        life = ["/bin/sh", "-c", f"{tools}/user-data; exec sleep infinity"]
        if not self._sandboxed:
            return life
        life[-1] = f"cp -a {ETC}/. /etc/ && {life[-1]}"
        return [
            *("bwrap", "--die-with-parent", "--unshare-pid", "--unshare-ipc", "--unshare-uts"),
            *("--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"),
            *("--tmpfs", "/tmp", "--tmpfs", "/run", "--tmpfs", "/var/lib", "--tmpfs", "/root"),
            # Users can be made here.
            *("--ro-bind", "/etc", ETC, "--tmpfs", "/etc", "--tmpfs", "/home"),
            *("--bind", str(self._directory / "console"), CONSOLE),
            *("--bind", str(self._cloud_init), CLOUD_INIT),
            *("--bind", str(disk), STATE, "--bind", str(self._directory / "tools"), INSIDE),
            *("--hostname", self._directory.name, *life),
        ]

    def _environment(self) -> dict[str, str]:
        tools = INSIDE if self._sandboxed else str(self._directory / "tools")
        return {
            "PATH": f"{tools}:{PATH}",
            "HOME": "/root",
            "FAKE_POWER": f"{tools}/power",
            "FAKE_INSTANCE": str(self._directory),
            "AWS_EC2_METADATA_SERVICE_ENDPOINT": self._metadata,
        }

    def console(self) -> bytes:
        return (self._directory / "console").read_bytes()[-CONSOLE_MOST:]

    def write(self, text: str) -> None:
        with (self._directory / "console").open("a") as console:
            console.write(text)

    def kill(self) -> None:
        """Kill everything at once, as a power cut does."""
        for process in self._processes:
            process.kill()
        for pid in () if self._sandboxed else self._inhabitants():
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        for process in self._processes:
            process.wait()
        self._processes.clear()

    def _inhabitants(self) -> list[int]:
        """Return all processes with our directory in their environment or on their command line."""
        found: list[int] = []
        for pid in (int(each.name) for each in Path("/proc").iterdir() if each.name.isdigit()):
            for name in ("environ", "cmdline"):
                try:
                    said = Path(f"/proc/{pid}/{name}").read_bytes()
                except OSError:
                    continue
                if os.fsencode(self._directory) in said and pid != os.getpid():
                    found.append(pid)
        return found

    def remove(self) -> None:
        self.kill()
        os.close(self.power)
        shutil.rmtree(self._directory, ignore_errors=True)


def sandbox_works() -> bool:
    if shutil.which("bwrap") is None:
        return False
    probe = ["bwrap", "--unshare-pid", "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "true"]
    return subprocess.run(probe, capture_output=True, check=False).returncode == 0
