"""`make demo-docker`: containers as nodes on Podman and dockerd, cold, used, returned, warm, killed, gone.

Both engines are real and of this demo alone: their storage is in its directory. KEEP=1 leaves it up.
"""

import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from muster.client import SyncClient, calls
from muster.config import DataDirectory
from tools.engines import getting
from tools.engines.running import IMAGE, Engine, running

PATIENCE = 120.0
COUNT = 4
WHO = 'echo "$MUSTER_RUN: node $MUSTER_INDEX of $MUSTER_COUNT in $(hostname)"'
ENGINE = '[docker.{name}]\nhost = "{host}"\nnetwork = "host"\ncapacity = 4\n\n'
CONFIG = f"""\
[limits]
stale_after = 16

{{engines}}[templates.ci]
provider = "docker"
resource_class = "small"
idle_timeout = 8
boot_script = '''
muster-agent step "writing a file"
echo ready >"$MUSTER_HOME/ready"
'''

[templates.ci.docker]
image = "{IMAGE}"
"""


class Stage:
    """A directory, engines and a server, and the command line as its user has it."""

    def __init__(self, directory: Path, engines: list[Engine]) -> None:
        self.directory = directory
        self.engines = engines
        others = {name: value for name, value in os.environ.items() if not name.startswith("MUSTER_")}
        self._environment = {**others, "MUSTER_DATA_DIR": str(directory / "data")}
        tables = "".join(ENGINE.format(name=each.kind, host=each.host) for each in engines)
        (directory / "muster.toml").write_text(CONFIG.format(engines=tables))

    @contextmanager
    def serving(self) -> Iterator[None]:
        with (self.directory / "server.log").open("wb") as log:
            server = subprocess.Popen(
                [sys.executable, "-m", "muster.cli", "serve", "--config", "muster.toml", "--port", "0"],
                cwd=self.directory,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        try:
            self.until(lambda: self._data.url() is not None or server.poll() is not None, "the server")
            if server.poll() is not None:
                sys.exit(f"error: the server did not start: {(self.directory / 'server.log').read_text()}")
            yield
        finally:
            server.terminate()
            server.wait()

    @property
    def _data(self) -> DataDirectory:
        return DataDirectory(self.directory / "data")

    def muster(self, *words: str) -> None:
        say(f"\n$ muster {' '.join(each if ' ' not in each else repr(each) for each in words)}")
        argv = [sys.executable, "-m", "muster.cli", *words]
        done = subprocess.run(argv, cwd=self.directory, env=self._environment, check=False)
        if done.returncode:
            sys.exit(f"error: that ended with {done.returncode}")

    def seconds(self, run: str) -> float:
        """How long its provision took, by the server's clock."""
        with SyncClient(self._data.url() or "", self._data.admin_token()) as client:
            return client.send(calls.operations(kind="provision", run=run, limit=1)).items[0].elapsed_seconds

    def containers(self) -> list[tuple[Engine, str]]:
        """Every container of Muster's that runs."""
        return [
            (engine, str(each["Id"]))
            for engine in self.engines
            for each in engine.containers("muster.machine")
            if each["State"] == "running"
        ]

    def until(self, holds: Callable[[], bool], what: str) -> None:
        latest = time.monotonic() + PATIENCE
        while not holds():
            if time.monotonic() > latest:
                sys.exit(f"error: waited in vain for {what}")
            time.sleep(0.1)


def say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def perform(stage: Stage) -> None:
    stage.muster("doctor")
    stage.muster("provision", "-t", "ci", "-n", str(COUNT), "--run", "cold")
    stage.muster("exec", "cold", "--", "sh", "-c", WHO)
    stage.muster("release", "cold")
    first = {container for _, container in stage.containers()}
    stage.muster("provision", "-t", "ci", "-n", str(COUNT), "--run", "warm")
    reused = len(first & {container for _, container in stage.containers()})
    engine, victim = stage.containers()[0]
    say(f"\nsomebody removes a container: {engine.kind} rm -f {victim[:12]}")
    engine.call("DELETE", f"/containers/{victim}", params={"force": "true", "v": "true"})
    began = time.monotonic()
    with SyncClient(stage._data.url() or "", stage._data.admin_token()) as client:
        gone = ("terminating", "terminated")
        stage.until(lambda: bool(client.send(calls.nodes(state=gone)).items), "Muster to notice")
    noticed = time.monotonic() - began
    stage.muster("events", "--last", "8")
    stage.muster("release", "warm")
    say("\nthe others are idle: after their idle timeout Muster terminates them")
    stage.until(lambda: not stage.containers(), "the idle timeout")
    say(
        f"\ndemo: cold {stage.seconds('cold'):.1f} s · warm {stage.seconds('warm'):.2f} s"
        f" · {reused} containers reused · a removed one noticed in {noticed:.1f} s"
        f" · {len(stage.containers())} leaked"
    )


def main() -> int:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    usable = [kind for kind in ("podman", "dockerd") if getting.missing(kind) is None]
    if not usable:
        sys.exit(f"error: {getting.missing('podman')}")
    with tempfile.TemporaryDirectory(prefix="muster-demo-") as name, ExitStack() as stack:
        engines = [stack.enter_context(running(kind, Path(name) / kind)) for kind in usable]
        say(f"engines of this demo alone: {', '.join(usable)}; an image with this machine's Python")
        stage = Stage(Path(name), engines)
        with stage.serving():
            perform(stage)
            if os.environ.get("KEEP", "") not in ("", "0"):
                say("\nleft up; Ctrl-C ends it; look around with:")
                say(f"  cd {name}; export MUSTER_DATA_DIR={name}/data; muster nodes")
                with suppress(KeyboardInterrupt):
                    threading.Event().wait()
        return 1 if stage.containers() else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
