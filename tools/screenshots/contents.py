"""What the pictures show: pools at work, boots that take their time, a template that is broken and paused.

Everything is real: the nodes are processes of this machine, and the broken boot script fails by itself.
"""

import time
from dataclasses import dataclass

from muster.client import SyncClient, calls
from muster.domain.requests import ProvisionRequest
from muster.domain.template import Reuse, TemplateSpec
from muster.integrations.process.demo_site import Site
from muster.wire.operations import Operation

CI = """\
set -e
muster-agent step "fetching the tool chain"
sleep 0.$(( $(od -An -N1 -tu1 /dev/urandom) % 9 ))
muster-agent step "making a virtual environment"
python3 -m venv --without-pip "$MUSTER_HOME/venv"
muster-agent step "warming caches"
sleep 1.$(( $(od -An -N1 -tu1 /dev/urandom) % 9 ))
"""
SLOW = """\
set -e
muster-agent step "fetching the tool chain"
sleep 2
muster-agent step "pulling the model"
sleep 90
"""
BROKEN = """\
set -e
echo "installing what the tests need"
playwrite install chromium
"""
TEMPLATES = (
    TemplateSpec(
        name="ci", provider="process", resource_class="small", boot_script=CI, max_nodes=18, min_idle=2
    ),
    TemplateSpec(
        name="ci-cold",
        provider="process",
        resource_class="small",
        boot_script=CI,
        max_nodes=8,
        reuse=Reuse.NEVER,
    ),
    TemplateSpec(name="models", provider="process", resource_class="small", boot_script=SLOW, max_nodes=3),
    TemplateSpec(
        name="browser-tests", provider="process", resource_class="small", boot_script=BROKEN, max_nodes=4
    ),
)
MINUTES = 5
"""Samples of the pools, one a minute, before the pictures are taken."""
BETWEEN = 12.0
"""Seconds for which each of these runs has its nodes."""
ROUNDS = 4
"""Of boots, for the distribution of their times."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    failed: str
    """An operation that failed."""


def filled(site: Site) -> Shown:
    with site.client() as client:
        for spec in TEMPLATES:
            client.send(calls.apply(spec))
        for number in range(ROUNDS):
            _ended(client, _asked(client, "ci-cold", 6, f"nightly-{number + 1}"))
            _ended(client, client.send(calls.release(run=f"nightly-{number + 1}")))
        for number in range(3):
            _ended(client, _asked(client, "ci", 2, f"pr-{4711 + number}"))
        client.send(calls.release(run="pr-4711"))
        _ended(client, _asked(client, "browser-tests", 2, "e2e-1"))
        failed = _ended(client, _asked(client, "browser-tests", 2, "e2e-2"))
        client.send(calls.pause("browser-tests"))
        _worked(client)
        _asked(client, "models", 3, "train-7")
        _asked(client, "models", 1, "train-8", queue=600.0)
        return Shown(failed=failed.operation_id)


def _worked(client: SyncClient) -> None:
    """Let runs come and go until the chart of a day has some minutes to show."""
    number = 0
    while _minutes(client) < MINUTES:
        number += 1
        run = f"pr-{4800 + number}"
        _ended(client, _asked(client, "ci", 1 + number % 5, run))
        time.sleep(BETWEEN)
        _ended(client, client.send(calls.release(run=run)))


def _minutes(client: SyncClient) -> int:
    history = client.send(calls.pool_history(hours=1, template="ci"))
    return max((len(item.points) for item in history.items), default=0)


def begun(client: SyncClient) -> Operation:
    """Start what has just begun when the picture is taken."""
    return _asked(client, "ci", 6, "pr-4714")


def _asked(client: SyncClient, template: str, count: int, run: str, queue: float = 0.0) -> Operation:
    request = ProvisionRequest(template=template, count=count, run=run, queue_timeout=queue)
    return client.send(calls.provision(request))


def _ended(client: SyncClient, operation: Operation) -> Operation:
    for _ in client.stream(calls.watch(operation.operation_id)):
        pass
    return client.send(calls.operation(operation.operation_id))
