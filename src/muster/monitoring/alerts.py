"""Each alert once: when it fires, what it means and what to do.

A rule warns before users notice, or says that they do. What needs no act has no alert. Every server of a
shared store tells the same gauges, so a rule takes the highest value of each instead of their sum.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum


class Severity(StrEnum):
    PAGE = "page"
    """A person must act now: work stops or money is lost."""
    TICKET = "ticket"
    """A person must act within a day."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Alert:
    name: str
    expression: str
    """In PromQL."""
    lasting: str = "5m"
    """For how long it must hold."""
    severity: Severity = Severity.TICKET
    summary: str
    """One line for the person who is paged; may use Prometheus's templates."""
    cause: str
    steps: tuple[str, ...]
    """What to do, in this order."""


ALERTS = (
    Alert(
        name="MusterDown",
        expression='up{job=~".*muster.*"} == 0',
        lasting="2m",
        severity=Severity.PAGE,
        summary="The Muster server {{ $labels.instance }} does not answer.",
        cause="The server has ended, hangs, or can't be reached. Running nodes go on; no run gets new ones.",
        steps=(
            "Look at its service and log: `systemctl status muster`, `journalctl -u muster`.",
            "Start it again. It goes on with every operation that it had begun.",
            "If it ends again, run `muster doctor` on its machine.",
        ),
    ),
    Alert(
        name="MusterVerdict",
        expression='max by (code, culprit) (muster_verdict{tone="danger"}) > 0',
        severity=Severity.PAGE,
        summary="Muster says: {{ $labels.code }} ({{ $labels.culprit }}).",
        cause="Muster itself found something wrong that stops work.",
        steps=(
            "`muster status` names the thing, the fact and the next step.",
            "`muster status --report` has all that a colleague needs to help.",
        ),
    ),
    Alert(
        name="MusterDutyOverdue",
        expression="max by (duty) (muster_duty_age_seconds - 3 * muster_duty_interval_seconds) > 120",
        severity=Severity.PAGE,
        summary="The duty {{ $labels.duty }} is overdue by {{ $value | humanizeDuration }}.",
        cause="No replica performs this duty. Machines may be kept for too long, or pools not be refilled.",
        steps=(
            "Check the store's latency: `muster status --report`.",
            "Look for `duty failed` in the log: it names the error.",
            "Start the server again if the duty hangs.",
        ),
    ),
    Alert(
        name="MusterStoreSlow",
        expression="histogram_quantile(0.95, sum by (le) (rate(muster_store_seconds_bucket[5m]))) > 0.25",
        lasting="10m",
        severity=Severity.PAGE,
        summary="One store call in twenty takes more than {{ $value | humanizeDuration }}.",
        cause="The disk or the database is overloaded, or far away.",
        steps=(
            "On SQLite: look at the disk (`iostat -x 1`), and at what else writes to it.",
            "On PostgreSQL: look at its locks and its CPU. Keep it in the network of the servers.",
        ),
    ),
    Alert(
        name="MusterMachinesResist",
        expression="max(muster_nodes_needing_attention) > 0",
        severity=Severity.PAGE,
        summary="{{ $value }} machines can't be ended.",
        cause="The provider refuses to terminate machines, or doesn't confirm it. They may cost money.",
        steps=(
            "`muster nodes --state terminating` lists them with the provider's last answer.",
            "Look at them in the provider's own console, and end them there.",
            "Check the rights of Muster's account: `muster doctor`.",
        ),
    ),
    Alert(
        name="MusterOrphans",
        expression="sum(increase(muster_orphans_total[1h])) > 0",
        lasting="0m",
        summary="Muster found {{ $value | humanize }} machines without a record in an hour, and ended them.",
        cause="A launch made machines after its time, or a record was lost with a restored backup.",
        steps=(
            "`muster events --last 500` shows `adopt` with the reason `orphan`.",
            "After a restored backup this is expected. Otherwise report it: no machine should come to this.",
        ),
    ),
    Alert(
        name="MusterProvisionsFail",
        expression=(
            'sum(rate(muster_operations_ended_total{kind="provision",status="failed"}[15m])) '
            '/ sum(rate(muster_operations_ended_total{kind="provision"}[15m])) > 0.2'
        ),
        lasting="10m",
        severity=Severity.PAGE,
        summary="{{ $value | humanizePercentage }} of provisions fail.",
        cause="A provider has no capacity, a boot script fails, or a limit is reached.",
        steps=(
            "`muster status` groups failures by cause, template and revision.",
            "`muster operations --status failed` and `muster operations why ID` tell of one.",
            "If a new revision fails, apply the earlier template again.",
        ),
    ),
    Alert(
        name="MusterQueueOld",
        expression="max(muster_queue_oldest_seconds) > 600",
        summary="An operation waits for room for {{ $value | humanizeDuration }}.",
        cause="Caps are reached, everything is paused, or nodes are not given back.",
        steps=(
            "`muster pools` shows used and cap of each template.",
            "`muster operations why ID` says what the oldest waits for.",
            "Raise `max_nodes`, or release runs that have ended: `muster nodes --state running`.",
        ),
    ),
    Alert(
        name="MusterCapNear",
        expression="sum(max by (template, state) (muster_nodes)) / max(muster_nodes_max) > 0.9",
        lasting="30m",
        summary="{{ $value | humanizePercentage }} of the installation's cap is used.",
        cause="More nodes are wanted than planned, or runs don't give their nodes back.",
        steps=(
            "`muster nodes --state running` shows the age of each run.",
            "Raise `max_nodes` of `[installation]`, or shorten `max_runtime` of templates.",
        ),
    ),
    Alert(
        name="MusterNodesSilent",
        expression="max(muster_nodes_stale) / sum(max by (health) (muster_nodes_health)) > 0.1",
        severity=Severity.PAGE,
        summary="{{ $value | humanizePercentage }} of the nodes are silent.",
        cause="The network between nodes and server is broken, or a host has failed.",
        steps=(
            "`muster nodes --output json` has `health`: do the silent ones share a host or a zone?",
            "From such a node, ask the server's `public_url`.",
        ),
    ),
    Alert(
        name="MusterBootsSlow",
        expression="histogram_quantile(0.9, sum by (le) (rate(muster_boot_seconds_bucket[30m]))) > 600",
        lasting="30m",
        summary="One boot in ten takes more than ten minutes.",
        cause="An image, a mirror or a package source is slow, or a boot script grew.",
        steps=(
            "`muster templates show NAME` has the time of each boot phase.",
            "The page of a template shows how boots changed with its revisions.",
        ),
    ),
    Alert(
        name="MusterProviderErrors",
        expression=(
            "sum by (provider) (rate(muster_provider_errors_total[10m])) "
            "/ sum by (provider) (rate(muster_provider_seconds_count[10m])) > 0.2"
        ),
        lasting="10m",
        summary="{{ $value | humanizePercentage }} of the calls to {{ $labels.provider }} fail.",
        cause="The provider throttles, refuses, or is down.",
        steps=(
            "`muster status` names the last error.",
            "Look at the provider's own status page and at the quota of the account.",
        ),
    ),
    Alert(
        name="MusterWebhooksUndelivered",
        expression="sum by (webhook) (max by (webhook, state) (muster_webhook_undelivered)) > 0",
        lasting="15m",
        summary="{{ $value }} messages of the webhook {{ $labels.webhook }} were not delivered.",
        cause="The receiver is away, refuses messages, or redirects them.",
        steps=(
            "`muster webhooks undelivered` lists them, each with what the receiver answered.",
            "`muster webhooks test NAME` sends a test message.",
            "When the receiver is well, `muster webhooks resend NAME` sends those again that were given up.",
            "If NAME is no longer in the settings, `muster webhooks forget NAME` forgets its messages.",
        ),
    ),
    Alert(
        name="MusterJobsUnserved",
        expression="sum(max by (cause) (muster_jobs_unserved)) > 0",
        lasting="10m",
        summary="{{ $value }} CI jobs wait and are not served.",
        cause="No template fits their labels, a cap is reached, or runners can't register.",
        steps=(
            "`muster jobs` lists them; `muster jobs why ID` says what keeps one waiting.",
            "`muster doctor` checks the rights of the app or token.",
        ),
    ),
)


def render(runbooks: str = "") -> str:
    """Return the file as YAML. `runbooks`: the address of the runbooks' page; empty: no links."""
    lines = ["groups:", "  - name: muster", "    rules:"]
    for alert in ALERTS:
        lines += _rule(alert, runbooks)
    return "\n".join(lines) + "\n"


def anchor(alert: Alert) -> str:
    return alert.name.lower()


def _rule(alert: Alert, runbooks: str) -> Iterator[str]:
    yield f"      - alert: {alert.name}"
    yield f"        expr: {_quoted(alert.expression)}"
    yield f"        for: {alert.lasting}"
    yield "        labels:"
    yield f"          severity: {alert.severity.value}"
    yield "        annotations:"
    yield f"          summary: {_quoted(alert.summary)}"
    yield f"          description: {_quoted(f'{alert.cause} {alert.steps[0]}')}"
    if runbooks:
        yield f"          runbook_url: {_quoted(f'{runbooks}#{anchor(alert)}')}"


def _quoted(text: str) -> str:
    """Return the text in double quotes, which YAML reads as JSON does."""
    return json.dumps(text, ensure_ascii=False)
