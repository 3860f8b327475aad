"""`muster provision`: ask for N ready nodes for a run, all or nothing, with live progress."""

from typing import TYPE_CHECKING

from muster.cli import options
from muster.cli.output import Output
from muster.domain.text import counted

if TYPE_CHECKING:
    from muster.wire.operations import Operation

LONGEST_SHOWN = 32
"""Above this a run's id breaks the line that shows how to use it; the operation's id never does."""


def provision(
    *,
    count: options.Count = 1,
    run: options.Run = None,
    template: options.TemplateName = None,
    resource_class: options.Class = None,
    types: options.Types = None,
    usage: options.Usage = None,
    max_runtime: options.MaxRuntime = None,
    timeout: options.Timeout = None,
    queue_timeout: options.QueueTimeout = None,
    hold_on_failure: options.HoldOnFailure = None,
    owner: options.Owner = "default",
    wait: options.Wait = None,
    detach: options.Detach = False,
    key: options.Key = None,
    _output: Output = None,
) -> None:
    """Ask for ready nodes, all or nothing, and watch their progress.

    Muster takes warm nodes first and creates the missing ones together. Ctrl-C leaves without stopping it.
    """
    from muster.cli.connection import open_client
    from muster.cli.operation_watch import finish_or_detach
    from muster.client import calls

    with open_client() as client:
        request = options.provision_request(
            client,
            count=count,
            run=run,
            template=template,
            resource_class=resource_class,
            types=types,
            usage=usage,
            max_runtime=max_runtime,
            timeout=timeout,
            queue_timeout=queue_timeout,
            hold_on_failure=hold_on_failure,
            owner=owner,
        )
        operation = client.send(calls.provision(request, key=key))
        finish_or_detach(client, operation, wait=wait, detach=detach, done=_ready)


def _ready(operation: "Operation") -> None:
    from muster.cli.durations import format_taken
    from muster.cli.output import say

    run, nodes = operation.run or "", len(operation.members)
    say(f"✔ {counted(nodes, 'node')} ready for {run} in {format_taken(operation.elapsed_seconds)}")
    for member in operation.members:
        say(f"  {member.node_id}")
    typeable = len(run) <= LONGEST_SHOWN and run.replace("-", "").replace("_", "").isalnum()
    target = run if typeable else operation.operation_id
    say(f"  use them: muster exec {target} -- uname -a")
    say(f"  give back: muster release {target}")
