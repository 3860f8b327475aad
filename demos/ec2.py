"""`make demo-ec2`: nodes on EC2, cold, used, returned, warm, interrupted, gone. It needs no account.

The EC2 is a fake; the server, the SDK, the user data, the agents and every command are the real ones. KEEP=1
leaves it up.
"""

import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from fakes.ec2 import FakeEc2
from muster.client import SyncClient, calls
from muster.config import DataDirectory

PATIENCE = 120.0
COUNT = 3
WHO = 'echo "$MUSTER_RUN: node $MUSTER_INDEX of $MUSTER_COUNT on $(hostname)"'
CONFIG = """\
[limits]
stale_after = 16

[ec2]
region = "{region}"
endpoint_url = "{url}"      # the fake; leave it out for AWS

[ec2.certificates]
{region} = '''
{certificate}'''

[templates.ci]
resource_class = "large"
instance_types = ["c*", "m*"]
idle_timeout = 8
boot_script = '''
muster-agent step "making a virtual environment"
python3 -m venv --without-pip "$MUSTER_HOME/venv"
'''

[templates.ci.ec2]
image = "ami-00000000000000001"
subnets = ["subnet-0000000000000000a", "subnet-0000000000000000b"]

[templates.spot]
resource_class = "large"
usage = ["spot", "on-demand"]

[templates.spot.ec2]
image = "ami-00000000000000001"
subnets = ["subnet-0000000000000000a", "subnet-0000000000000000b"]
"""


class Stage:
    """A directory, a fake EC2 and a server, and the command line as its user has it."""

    def __init__(self, directory: Path, fake: FakeEc2) -> None:
        self.directory = directory
        self.fake = fake
        self._environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith(("MUSTER_", "AWS_"))},
            "MUSTER_DATA_DIR": str(directory / "data"),
            "AWS_ACCESS_KEY_ID": "fake",
            "AWS_SECRET_ACCESS_KEY": "fake",
        }
        region = fake.region.name
        text = CONFIG.format(region=region, url=fake.url, certificate=fake.signer.pem)
        (directory / "muster.toml").write_text(text)

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
        done = subprocess.run(
            [sys.executable, "-m", "muster.cli", *words],
            cwd=self.directory,
            env=self._environment,
            check=False,
        )
        if done.returncode:
            sys.exit(f"error: that ended with {done.returncode}")

    def seconds(self, run: str) -> float:
        """Return how long its provision took, by the server's clock."""
        with SyncClient(self._data.url() or "", self._data.admin_token()) as client:
            found = client.send(calls.operations(kind="provision", run=run, limit=1)).items
            return found[0].elapsed_seconds

    def machines(self) -> list[str]:
        return [each.id for each in self.fake.instances()]

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
    fake = stage.fake
    stage.muster("doctor")
    started = time.monotonic()
    stage.muster("provision", "-t", "ci", "-n", str(COUNT), "--run", "cold")
    stage.muster("exec", "cold", "--", "sh", "-c", WHO)
    stage.muster("release", "cold")
    first = stage.machines()
    stage.muster("provision", "-t", "ci", "-n", str(COUNT), "--run", "warm")
    reused = len(set(first) & set(stage.machines()))
    stage.muster("nodes")
    stage.muster("release", "warm")

    stage.muster("provision", "-t", "spot", "-n", "1", "--run", "cheap")
    (spot,) = [each.id for each in fake.instances() if each.spot]
    say(f"\nEC2 takes {spot} back in 10 s, as it does with spot instances; the agent reads it from IMDSv2")
    fake.interrupt(spot, 10.0)
    stage.until(lambda: spot not in stage.machines(), "the interruption")
    stage.muster("events", "--last", "12")

    say("\nnobody uses the others any more: after their idle timeout they are terminated")
    stage.until(lambda: not stage.machines(), "the idle timeout")
    took = time.monotonic() - started
    looks = sum(1 for _, action in fake.calls if action.startswith(("Describe", "Get")))
    say(
        f"\ndemo: cold {stage.seconds('cold'):.1f} s · warm {stage.seconds('warm'):.2f} s"
        f" · {reused} machines reused · {len(fake.cloud.fleets)} fleets"
        f" · {looks / took:.1f} looks a second · {len(stage.machines())} leaked"
    )


def main() -> int:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    with tempfile.TemporaryDirectory(prefix="muster-demo-ec2-") as name, FakeEc2() as fake:
        how = "in a sandbox" if fake.sandboxed else "as a plain process: install bubblewrap to sandbox it"
        say(f"a fake EC2 on {fake.url}; each instance runs its user data {how}")
        stage = Stage(Path(name), fake)
        with stage.serving():
            perform(stage)
            if os.environ.get("KEEP", "") not in ("", "0"):
                say("\nleft up; Ctrl-C ends it; look around with:")
                say(f"  cd {name}; export MUSTER_DATA_DIR={name}/data; muster nodes")
                with suppress(KeyboardInterrupt):
                    threading.Event().wait()
        return 1 if fake.instances() else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
