"""`muster provision`: ask for N ready nodes for a run, all or nothing, with live progress."""

from typing import TYPE_CHECKING

from muster.cli import options
from muster.cli.connection import calls, open_client
from muster.cli.durations import format_taken
from muster.cli.operation_watch import finish_or_detach
from muster.cli.options import with_options
from muster.cli.output import say
from muster.domain.text import counted

if TYPE_CHECKING:
    from muster.wire.operations import Operation

LONGEST_SHOWN = 32
"""Above this a run's id breaks the line that shows how to use it; the operation's id never does."""


@with_options(options.ProvisionOptions)
def provision(
    *,
    asked: options.ProvisionOptions,
    wait: options.Wait = None,
    detach: options.Detach = False,
    key: options.Key = None,
) -> None:
    """Ask for ready nodes, all or nothing, and watch their progress.

    Muster takes warm nodes first and creates the missing ones together. Ctrl-C leaves without stopping it.
    """
    with open_client() as client:
        operation = client.send(calls.provision(asked.request(client), key=key))
        finish_or_detach(client, operation, wait=wait, detach=detach, done=_ready)


def _ready(operation: "Operation") -> None:
    run, nodes = operation.run or "", len(operation.members)
    say(f"✔ {counted(nodes, 'node')} ready for {run} in {format_taken(operation.elapsed_seconds)}")
    for member in operation.members:
        say(f"  {member.node_id}")
    typeable = len(run) <= LONGEST_SHOWN and run.replace("-", "").replace("_", "").isalnum()
    target = run if typeable else operation.operation_id
    say(f"  use them: muster exec {target} -- uname -a")
    say(f"  give back: muster release {target}")
