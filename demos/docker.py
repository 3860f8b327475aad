"""`make demo-docker`: containers as nodes on Podman and dockerd, cold, used, returned, warm, killed, gone.

Both engines are real and of this demo alone: their storage is in its directory. KEEP=1 leaves it up.
"""

import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

from demos.server import DemoServer, end_with, say, until
from muster.client import calls
from tools.engines import getting
from tools.engines.running import IMAGE, Engine, running

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


def running_containers(engines: list[Engine]) -> list[tuple[Engine, str]]:
    """Return every container of Muster's that runs."""
    return [
        (engine, str(each["Id"]))
        for engine in engines
        for each in engine.containers("muster.machine")
        if each["State"] == "running"
    ]


def perform(server: DemoServer, engines: list[Engine]) -> None:
    server.muster("doctor")
    server.muster("provision", "-t", "ci", "-n", str(COUNT), "--run", "cold")
    server.muster("exec", "cold", "--", "sh", "-c", WHO)
    server.muster("release", "cold")
    first = {container for _, container in running_containers(engines)}
    server.muster("provision", "-t", "ci", "-n", str(COUNT), "--run", "warm")
    reused = len(first & {container for _, container in running_containers(engines)})
    engine, victim = running_containers(engines)[0]
    say(f"\nan operator removes a container by hand: {engine.kind} rm -f {victim[:12]}")
    engine.call("DELETE", f"/containers/{victim}", params={"force": "true", "v": "true"})
    began = time.monotonic()
    with server.client() as client:
        gone = ("terminating", "terminated")
        until(lambda: bool(client.send(calls.nodes(state=gone)).items), "Muster to notice")
    noticed = time.monotonic() - began
    server.muster("events", "--last", "8")
    server.muster("release", "warm")
    say("\nthe others are idle: after their idle timeout Muster terminates them")
    until(lambda: not running_containers(engines), "the idle timeout")
    say(
        f"\ndemo: cold {server.seconds('cold'):.1f} s · warm {server.seconds('warm'):.2f} s"
        f" · {reused} containers reused · a removed one noticed in {noticed:.1f} s"
        f" · {len(running_containers(engines))} leaked"
    )


def main() -> int:
    usable = [kind for kind in ("podman", "dockerd") if getting.missing(kind) is None]
    if not usable:
        sys.exit(f"error: {getting.missing('podman')}")
    with tempfile.TemporaryDirectory(prefix="muster-demo-") as name, ExitStack() as stack:
        engines = [stack.enter_context(running(kind, Path(name) / kind)) for kind in usable]
        say(f"engines of this demo alone: {', '.join(usable)}; an image with this machine's Python")
        tables = "".join(ENGINE.format(name=each.kind, host=each.host) for each in engines)
        server = DemoServer(Path(name), CONFIG.format(engines=tables), environment={})
        with server.serving():
            perform(server, engines)
            server.leave_up()
        return 1 if running_containers(engines) else 0


if __name__ == "__main__":
    end_with(main)
