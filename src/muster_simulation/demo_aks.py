"""`muster demo-aks`: clusters on a simulated Azure: one that comes, one that fails, one that is stopped.

Everything but Azure is real: the server, its operations, Azure's own SDKs, HTTP. Azure's minutes are seconds.
"""

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Annotated

import typer

from muster.cli import output, progress_views
from muster.cli.operation_watch import Patience, progress_of
from muster.domain.text import counted

if TYPE_CHECKING:
    from muster.client import SyncClient
    from muster.integrations.aks.error_codes import Problem
    from muster.integrations.process.demo_site import Site
    from muster.wire.operations import Operation
    from muster_simulation.arm import Arm

NAME = "demo_aks"
TEMPLATE = "batch"
PATIENCE = 120.0
POLL_EVERY = 1.0
CANCEL_AFTER = 4.0
PACES = {"create": 10.0, "pool": 5.0, "abort": 2.0, "delete": 4.0, "group_delete": 2.0, "principal": 1.0}
CONFIG = """
[aks]
endpoint = "{endpoint}"
poll_every = {poll_every}

[templates.{template}]
provider = "aks"

[templates.{template}.cluster]
subscription = "00000000-0000-4000-8000-000000000001"
resource_group = "rg-batch"
region = "westeurope"
tags = {{ team = "genomics" }}

[[templates.{template}.cluster.pools]]
name = "systempool"
mode = "System"
vm_size = "Standard_D4s_v5"

[[templates.{template}.cluster.pools]]
name = "blastpool"
vm_size = "Standard_E16s_v5"
count = 10
taints = ["blast=true:NoSchedule"]

[[templates.{template}.cluster.roles]]
role = "AcrPull"
scope = "{scope}"
"""
SCOPE = (
    "/subscriptions/00000000-0000-4000-8000-000000000001/resourceGroups/shared"
    "/providers/Microsoft.ContainerRegistry/registries/images"
)


def demo_aks(
    *,
    keep: Annotated[
        bool, typer.Option("--keep", help="Leave server and page up until Ctrl-C. Also: KEEP=1.")
    ] = False,
) -> None:
    """See clusters on a simulated Azure: one is made, one fails, one is stopped; then all is gone."""
    from muster.integrations.aks import credentials
    from muster.integrations.process.demo import interruptible

    credentials.check_installed()
    with interruptible(), _azure() as (arm, endpoint):
        _told(f"a simulated Azure answers on {endpoint}; its minutes are seconds")
        _perform(arm, endpoint, keep=keep or os.environ.get("KEEP", "") not in ("", "0"))


def _perform(arm: "Arm", endpoint: str, *, keep: bool) -> None:
    from muster.integrations.process.demo_site import DemoFailed, Site

    config = CONFIG.format(endpoint=endpoint, poll_every=POLL_EVERY, template=TEMPLATE, scope=SCOPE)
    site = Site.started(config)
    try:
        _told(f"a server listens on {site.url}, with its data in {site.directory}")
        seconds = _shown(site, arm, keep=keep)
        if keep:
            _leave_up(site, seconds)
            return
    finally:
        site.end()
    left = len(arm.groups) + len(arm.clusters) + len(arm.assignments)
    if output.wants_json():
        output.print_json({"create_seconds": seconds, "left": left})
    else:
        output.say(f"demo: created in {seconds:.1f} s · failed, told why · cancelled · {left} left in Azure")
    if left:
        raise DemoFailed(f"{counted(left, 'resource')} left in Azure: please report this")


def _shown(site: "Site", arm: "Arm", *, keep: bool) -> float:
    from muster.client import calls

    with site.needed(), site.client() as client:
        _told(f"\n$ muster clusters create blast-1 -t {TEMPLATE}")
        made = _followed(client, client.send(calls.create_cluster("blast-1", TEMPLATE)))
        _told(f"✔ ready: {made.result}\n  {made.detail.console_url}")
        _told(f"\n$ muster clusters create blast-2 -t {TEMPLATE}    # there is no quota left")
        arm.next_problem = _quota()
        failed = _followed(client, client.send(calls.create_cluster("blast-2", TEMPLATE)))
        _told(
            f"✖ {failed.error.code} ({failed.error.reason}): {failed.error.message}"
            if failed.error
            else "✖ it should have failed"
        )
        _told(f"\n$ muster clusters create blast-3 -t {TEMPLATE}    # and a person cancels it")
        _cancelled(site, client)
        if not keep:
            _told("\n$ muster clusters delete blast-1")
            gone = _followed(client, client.send(calls.delete_cluster("blast-1")))
            _told(f"✔ {gone.message}")
    return made.elapsed_seconds


def _leave_up(site: "Site", seconds: float) -> None:
    """Azure lives in this process, so it stays until it is interrupted."""
    page, token = f"{site.url}/clusters", site.directory / "admin.token"
    if output.wants_json():
        output.print_json(
            {"create_seconds": seconds, "url": page, "data_dir": str(site.directory), "pid": os.getpid()}
        )
    _told(f"\nleft up: {page}")
    _told(f"  see it:       {page}, signed in with what is in {token}")
    _told(f"  look around:  export MUSTER_DATA_DIR={site.directory}; muster clusters")
    _told("  end it:       Ctrl-C")
    with site.needed(), suppress(KeyboardInterrupt):
        _until_interrupted(site)
    _told("\nending the server and the simulated Azure")


def _until_interrupted(_site: "Site") -> None:
    threading.Event().wait()


def _cancelled(site: "Site", client: "SyncClient") -> None:
    from muster.client import calls

    operation = client.send(calls.create_cluster("blast-3", TEMPLATE))

    def cancel() -> None:
        with site.client() as another:
            another.send(calls.cancel(operation.operation_id))

    timer = threading.Timer(CANCEL_AFTER, cancel)
    timer.start()
    try:
        ended = _followed(client, operation)
    finally:
        timer.cancel()
        timer.join()
    _told(f"✔ {ended.status}: {ended.message}")


def _followed(client: "SyncClient", operation: "Operation") -> "Operation":
    from muster.client import calls

    with progress_views.choose_view(elapsed=operation.elapsed_seconds) as view:
        for progress in progress_of(client, operation.operation_id, Patience(PATIENCE)):
            view.show(progress)
    return client.send(calls.operation(operation.operation_id))


@contextmanager
def _azure() -> "Iterator[tuple[Arm, str]]":
    from muster_simulation.arm import Arm, Paces
    from muster_simulation.arm.server import ArmServer

    arm = Arm(time.monotonic, Paces(**PACES))
    with ArmServer(arm).in_a_thread() as endpoint:
        yield arm, endpoint


def _quota() -> "Problem":
    from muster.integrations.aks.error_codes import Problem

    return Problem(
        code="QuotaExceeded",
        message="Operation could not be completed as it results in exceeding approved"
        " standardESv5Family Cores quota. Additional details - Current Limit: 100, Current Usage: 16,"
        " Additional Required: 164, (Minimum) New Limit Required: 180.",
    )


def _told(text: str) -> None:
    if not output.wants_json():
        output.say(text)
