"""`make demo-ec2`: nodes on EC2, cold, used, returned, warm, interrupted, gone. It needs no account.

The EC2 is a fake; the server, the SDK, the user data, the agents and every command are the real ones. KEEP=1
leaves it up.
"""

import tempfile
import time
from pathlib import Path

from demos.server import DemoServer, end_with, say, until
from fakes.ec2 import FakeEc2

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


def machines(fake: FakeEc2) -> list[str]:
    return [each.id for each in fake.instances()]


def perform(server: DemoServer, fake: FakeEc2) -> None:
    server.muster("doctor")
    started = time.monotonic()
    server.muster("provision", "-t", "ci", "-n", str(COUNT), "--run", "cold")
    server.muster("exec", "cold", "--", "sh", "-c", WHO)
    server.muster("release", "cold")
    first = machines(fake)
    server.muster("provision", "-t", "ci", "-n", str(COUNT), "--run", "warm")
    reused = len(set(first) & set(machines(fake)))
    server.muster("nodes")
    server.muster("release", "warm")

    server.muster("provision", "-t", "spot", "-n", "1", "--run", "cheap")
    (spot,) = [each.id for each in fake.instances() if each.spot]
    say(f"\nEC2 takes {spot} back in 10 s, as it does with spot instances; the agent reads it from IMDSv2")
    fake.interrupt(spot, 10.0)
    until(lambda: spot not in machines(fake), "the interruption")
    server.muster("events", "--last", "12")

    say("\nno run uses the others any more: Muster terminates them after their idle timeout")
    until(lambda: not machines(fake), "the idle timeout")
    took = time.monotonic() - started
    looks = sum(1 for _, action in fake.calls if action.startswith(("Describe", "Get")))
    say(
        f"\ndemo: cold {server.seconds('cold'):.1f} s · warm {server.seconds('warm'):.2f} s"
        f" · {reused} machines reused · {len(fake.cloud.fleets)} fleets"
        f" · {looks / took:.1f} looks a second · {len(machines(fake))} leaked"
    )


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="muster-demo-ec2-") as name, FakeEc2() as fake:
        how = "in a sandbox" if fake.sandboxed else "as a plain process: install bubblewrap to sandbox it"
        say(f"a fake EC2 on {fake.url}; each instance runs its user data {how}")
        server = DemoServer(
            Path(name),
            CONFIG.format(region=fake.region.name, url=fake.url, certificate=fake.signer.pem),
            environment={"AWS_ACCESS_KEY_ID": "fake", "AWS_SECRET_ACCESS_KEY": "fake"},
            hidden=("AWS_",),
        )
        with server.serving():
            perform(server, fake)
            server.leave_up()
        return 1 if fake.instances() else 0


if __name__ == "__main__":
    end_with(main)
