"""One engine in a directory of its own: started, stopped, killed, and started again.

Owns every process of the engine: `close` leaves none of its containers, mounts or files. An engine that was
killed leaves what a real one leaves: Podman's containers go on, dockerd's shims hold theirs.
"""

import hashlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

import httpx

from tools.engines import getting, image
from tools.plain_http import NO_AUTHORITIES

PATIENCE = 60.0
STEP = 0.05
NOBODY = 65534
IMAGE = "localhost/muster-test:latest"
"""Podman 4.3 knows no other tag for what it imports."""
PODMAN_CONF = """\
[containers]
default_ulimits = ["nofile=4096:4096", "nproc=4096:4096"]
netns = "host"
[engine]
runtime = "runc"
cgroup_manager = "cgroupfs"
events_logger = "file"
events_logfile_path = "{root}/events.log"
tmp_dir = "{root}/tmp"
lock_type = "file"
num_locks = 512
"""
REGISTRIES = '[[registry]]\nprefix = "127.0.0.1"\nlocation = "127.0.0.1"\ninsecure = true\n'
"""As dockerd has it by itself."""
GUARD = """
owner=$1 file=$2 pid=$3
shift 3
{
  while [ "$(cat "$file" 2>/dev/null)" = "$pid" ]; do
    kill -0 "$owner" 2>/dev/null || exec "$@"
    sleep 1
  done
} </dev/null >/dev/null 2>&1 &
"""
"""Watches an owner, until the engine's file is gone or names another process."""
DOCKERD = "--bridge=none --iptables=false --ip6tables=false --ip-forward=false --userland-proxy=false"


class Engine:
    """A Podman service or a dockerd."""

    def __init__(
        self,
        kind: str,
        root: Path,
        *,
        listen: str = "",
        options: tuple[str, ...] = (),
        disk_mib: int = 0,
        rootless: bool = False,
        owner: int | None = None,
    ) -> None:
        """`listen`: another address beside the socket, as dockerd takes it. `disk_mib`: a disk of its own.
        `rootless`: Podman as an ordinary user, who has no other users to give to containers.
        `owner`: a process after whose end the engine is closed; this one if none is named."""
        self.kind = kind
        self.root = root
        self.socket = root / "engine.sock"
        self._listen = listen
        self._options = options
        self._disk_mib = disk_mib
        self._rootless = rootless
        self._owner = os.getpid() if owner is None else owner
        self._pid: int | None = None

    @property
    def host(self) -> str:
        return f"unix://{self.socket}"

    @property
    def pid(self) -> int:
        assert self._pid is not None  # noqa: S101
        return self._pid

    @property
    def log(self) -> str:
        return (self.root / "log").read_text(errors="replace")

    def start(self) -> "Engine":
        """Start it, or start it again, and wait until it answers."""
        self.root.mkdir(parents=True, exist_ok=True)
        if self._disk_mib and not self.root.is_mount():
            size = f"size={self._disk_mib}m"
            subprocess.run(["mount", "-t", "tmpfs", "-o", size, "tmpfs", str(self.root)], check=True)  # noqa: S603, S607
        if self._rootless:
            os.chown(self.root, NOBODY, NOBODY)
        # One that was killed leaves these, and a containerd that died with it is a zombie for a while.
        for left in (self.socket, self.root / "pid", self.root / "exec/containerd/containerd.pid"):
            left.unlink(missing_ok=True)
        # It is no child: the process that closes it need not be the one that started it.
        started = subprocess.run(  # noqa: S603
            ["/bin/sh", "-c", 'setsid "$@" >>log 2>&1 </dev/null & echo $!', "sh", *self._argv()],
            cwd=self.root,
            env=self._environment(),
            stdout=subprocess.PIPE,
            check=True,
        )
        (self.root / "engine.pid").write_bytes(started.stdout)
        self.adopt()
        self._guard()
        _until(self._answers, lambda: f"{self.kind} did not start: {self.log[-2000:]}")
        return self

    def _guard(self) -> None:
        """Close the engine if its owner dies without doing so: a test process may be killed."""
        closing = [sys.executable, "-m", "tools.engines", "close", self.kind, str(self.root)]
        words = [str(self._owner), str(self.root / "engine.pid"), str(self.pid), *closing]
        subprocess.run(["/bin/sh", "-c", GUARD, "sh", *words], cwd=getting.ROOT, check=True)  # noqa: S603

    def adopt(self) -> "Engine":
        """Take over one that another process started, to end it."""
        self._pid = int((self.root / "engine.pid").read_text())
        return self

    def command(self, *argv: str) -> str:
        """Run Podman's own command line on this engine's storage, as a person would. Return what it says."""
        own = ["--root", f"{self.root}/storage", "--runroot", f"{self.root}/run"]
        done = subprocess.run(  # noqa: S603
            ["podman", *own, *argv],  # noqa: S607
            env=self._environment(),
            check=False,
            capture_output=True,
            text=True,
        )
        if done.returncode:
            raise RuntimeError(f"podman {argv[0]} failed: {done.stdout[-2000:]}{done.stderr[-2000:]}")
        return done.stdout

    def _environment(self) -> Mapping[str, str]:
        own = {"HOME": str(self.root), "XDG_RUNTIME_DIR": str(self.root)} if self._rootless else {}
        return {
            **os.environ,
            **own,
            "PATH": getting.path(),
            "CONTAINERS_CONF": str(self.root / "podman.conf"),
            "CONTAINERS_REGISTRIES_CONF": str(self.root / "registries.conf"),
        }

    def _argv(self) -> list[str]:
        root = self.root
        if self.kind == "podman":
            (root / "podman.conf").write_text(PODMAN_CONF.format(root=root))
            (root / "registries.conf").write_text(REGISTRIES)
            own = ["--root", f"{root}/storage", "--runroot", f"{root}/run", *self._options]
            if self._rootless:
                own += ["--storage-driver", "vfs", "--storage-opt", "vfs.ignore_chown_errors=true"]
            user = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]
            return [
                *(user if self._rootless else ()),
                "podman",
                *own,
                "system",
                "service",
                "--time=0",
                self.host,
            ]
        own = ["--data-root", f"{root}/data", "--exec-root", f"{root}/exec", "--pidfile", f"{root}/pid"]
        more = ["-H", self._listen] if self._listen else []
        return ["dockerd", "-H", self.host, *more, *own, *DOCKERD.split(), *self._options]

    def _answers(self) -> bool:
        if self._gone(0.0):
            raise RuntimeError(f"{self.kind} ended: {self.log[-2000:]}")
        return self._alive()

    def _alive(self) -> bool:
        # First without httpx, which would leave the socket of a failed connection open.
        with suppress(OSError, httpx.HTTPError), socket.socket(socket.AF_UNIX) as probe:
            probe.connect(str(self.socket))
            return self.call("GET", "/_ping").is_success
        return False

    def stop(self) -> None:
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        self._end(signal.SIGKILL)

    def _end(self, number: int) -> None:
        if self._pid is None:
            return
        for signal_number in (number, signal.SIGKILL):
            with suppress(ProcessLookupError):
                os.kill(self._pid, signal_number)
            if self._gone(PATIENCE):
                break
        self._pid = None

    def _gone(self, within: float) -> bool:
        """Whether its process ends in time. An ended one may wait a while for init."""
        latest = time.monotonic() + within
        while True:
            try:
                if Path(f"/proc/{self._pid}/stat").read_text().rpartition(") ")[2].startswith(("Z", "X")):
                    return True
            except OSError:
                return True
            if time.monotonic() >= latest:
                return False
            time.sleep(STEP)

    # --- asking -----------------------------------------------------------------------------------

    def call(self, method: str, path: str, **given: object) -> httpx.Response:
        """One request, without the adapter under test."""
        transport = httpx.HTTPTransport(uds=str(self.socket), verify=NO_AUTHORITIES)
        with httpx.Client(transport=transport, base_url="http://engine", timeout=PATIENCE) as client:
            return client.request(method, path, **given)  # type: ignore[arg-type]

    def containers(self, label: str = "") -> list[Mapping[str, object]]:
        filters = f'{{"label":["{label}"]}}' if label else "{}"
        found: list[Mapping[str, object]] = self.call(
            "GET", "/containers/json", params={"all": "true", "filters": filters}
        ).json()
        return found

    def clear(self, label: str = "") -> None:
        """Remove containers. Killed first: Podman would wait for those that don't hear yet."""
        for each in self.containers(label):
            self.call("POST", f"/containers/{each['Id']}/kill")
            self.call("DELETE", f"/containers/{each['Id']}", params={"force": "true", "v": "true"})

    def load(self, archive: Path, name: str = IMAGE) -> None:
        """Import an image, unless the engine has it."""
        if self.call("GET", f"/images/{name}/json").is_success:
            return
        repository, _, tag = name.rpartition(":")
        with archive.open("rb") as file:
            params = {"fromSrc": "-", "repo": repository, "tag": tag}
            headers = {"Content-Type": "application/x-tar"}
            answer = self.call("POST", "/images/create", params=params, content=file, headers=headers)
        answer.raise_for_status()

    # --- the end ----------------------------------------------------------------------------------

    def close(self) -> None:
        """Remove every container, end the engine, and remove what it mounted and wrote."""
        with suppress(httpx.HTTPError, RuntimeError):
            if self._pid is None or not self._alive():
                self.start()
            self.clear()
        self.stop()
        for pid in self._left():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for mount in reversed(_mounts(self.root)):
            subprocess.run(["umount", "-l", mount], check=False, capture_output=True)  # noqa: S603, S607
        shutil.rmtree(self.root, ignore_errors=True)

    def _left(self) -> list[int]:
        """Processes that were started with our directory. Shims and monitors have it on their command line.
        The process that keeps a rootless Podman's namespaces has it only in its environment."""
        root = os.fsencode(str(self.root))
        marks = {"cmdline": root, "environ": b"CONTAINERS_CONF=" + root}
        found = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit() and int(entry.name) != os.getpid():
                with suppress(OSError):
                    if any(mark in (entry / name).read_bytes() for name, mark in marks.items()):
                        found.append(int(entry.name))
        return found


def archive(directory: Path) -> Path:
    """The image of this machine's Python, written once into a directory that sessions share."""
    key = hashlib.sha256(Path(image.__file__).read_bytes()).hexdigest()[:12]
    path = directory / f"image-{key}.tar"
    if not path.exists():
        directory.mkdir(parents=True, exist_ok=True)
        beside = path.with_suffix(f".{os.getpid()}")
        image.write(beside)
        beside.replace(path)
    return path


@contextmanager
def running(kind: str, root: Path) -> Iterator[Engine]:
    """An engine that has the image."""
    engine = Engine(kind, root)
    try:
        engine.start().load(archive(getting.UNPACKED))
        yield engine
    finally:
        engine.close()


def _mounts(root: Path) -> list[str]:
    with Path("/proc/mounts").open() as file:
        places = [line.split()[1] for line in file]
    return [place for place in places if f"{place}/".startswith(f"{root}/")]


def _until(holds: Callable[[], bool], what: Callable[[], str]) -> None:
    latest = time.monotonic() + PATIENCE
    while not holds():
        if time.monotonic() > latest:
            raise TimeoutError(what())
        time.sleep(STEP)
