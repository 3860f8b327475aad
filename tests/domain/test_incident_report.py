"""The overview as Markdown: enough to begin with, and nothing in it is foreign markup."""

import re
from dataclasses import replace

from muster.domain.boot import Distribution
from muster.domain.events import Entity
from muster.domain.failures import Failed, Failure, grouped
from muster.domain.health import Health
from muster.domain.ids import NodeId, OperationId
from muster.domain.incident_report import report
from muster.domain.job_figures import JobFigures
from muster.domain.lifecycle import NodeState
from muster.domain.observations import Calls, Dependency, DutyObservation, Observations
from muster.domain.overview import Counted, Failures, Leftovers, Overview, Pool, Pools, Runs, Warmth, holdings
from muster.domain.reasons import Reason
from muster.domain.recent_changes import Change
from muster.domain.template import Template
from muster.domain.verdicts import all_well, judge
from muster.domain.wait_reasons import Waiting, WaitsFor
from tests.domain.builders import NOW, node, spec

SIGNS = Observations(
    now=NOW,
    store=Calls(window=300.0),
    dependencies=(),
    duties=(),
    waiting=(),
    failures=(),
    handed_over={},
    health={"ci": {Health.READY: 2}},
    stuck=(),
    orphans=(),
    paused=(),
)
NO_HANDOVER = Warmth(provisions=0, nodes=0, warm=0, ready=None)
QUIET = Overview(
    at=NOW,
    replica="replica-1",
    verdict=all_well(SIGNS),
    findings=(),
    acknowledged=(),
    waiting=Counted(groups=(), more=False),
    runs=Runs(items=(), more=False),
    failed_hour=Failures(groups=(), more=False),
    failed_day=Failures(groups=(), more=False),
    leftovers=Leftovers(terminating=0, stuck=(), orphans=()),
    changes=(),
    warm_hour=NO_HANDOVER,
    warm_day=NO_HANDOVER,
    warm_more=False,
    jobs=JobFigures(),
    pools=Pools(items=(), used=2, max_nodes=100, paused=False),
    health={Health.READY: 2},
    paused=(),
    duties=(),
    dependencies=(),
    store=Calls(window=300.0),
)
HOSTILE = "<script>alert(1)</script>\n# Oh | *no* [x](http://e.example) `rm`"


def test_a_quiet_report_says_so() -> None:
    told = report(QUIET)
    assert told.startswith(
        "# Muster at 1970-01-02 03:46:40 UTC\n\n**All is well: 2 nodes up, nothing waits.**\n"
    )
    assert "## Waiting\nNothing." in told and "## Failed in the last hour\nNothing." in told
    assert "## Failed in the last day\nNothing." in told
    assert "no requests" in told and "Orphans" not in told and "Changed" not in told
    assert told.endswith("\n") and not told.endswith("\n\n")


def troubled(words: str) -> Overview:
    failure = Failure(
        id="node-1",
        what=Failed.NODE,
        at=NOW - 90,
        reason=Reason.BOOT_TIMEOUT,
        template=words,
        revision=7,
        node_id=NodeId("node-1"),
        operation_id=None,
        detail=words,
    )
    groups = grouped([failure])
    waits = Waiting(
        reason=WaitsFor.ROOM, count=3, oldest_since=NOW - 120, operation_ids=(OperationId("op-1"),)
    )
    duty = DutyObservation(name="reaper", every=5.0, ticked_at=NOW - 300, late=True, problem=words)
    provider = Dependency(name="ec2", calls=Calls(window=300.0, calls=9, errors=9, last_error=words))
    (held,) = holdings([node(NodeState.RUNNING, run=words, template=words, deadline_at=NOW + 600)], {})
    stuck = node(NodeState.TERMINATING, machine_id=words, entered_at=NOW - 3600)
    found = judge(
        replace(
            SIGNS,
            waiting=(waits,),
            failures=groups,
            duties=(duty,),
            dependencies=(provider,),
            stuck=(stuck,),
            paused=(words,),
        )
    )
    change = Change(
        id="ev-1", at=NOW, what="applied", text=words, who=words, entity=Entity.TEMPLATE, entity_id="ci"
    )
    pool = Pool(
        template=Template(spec=spec(name="ci"), revision=7, applied_at=NOW),
        counts={NodeState.IDLE: 4},
        used=5,
        paused=True,
    )
    ready = Distribution(count=1, p50=0.42, p95=12.5, p99=12.5, longest=12.5)
    return replace(
        QUIET,
        verdict=found[0],
        findings=found,
        waiting=Counted(groups=(waits,), more=False),
        runs=Runs(items=(held,), more=True),
        failed_hour=Failures(groups=(), more=False),
        failed_day=Failures(groups=groups, more=False),
        leftovers=Leftovers(terminating=1, stuck=(stuck,), orphans=(stuck,)),
        changes=(change,),
        pools=Pools(items=(pool,), used=5, max_nodes=9, paused=True),
        warm_hour=Warmth(provisions=1, nodes=4, warm=3, ready=ready),
        duties=(duty,),
        dependencies=(provider,),
        store=Calls(window=300.0, calls=100, p95=0.005),
    )


def test_a_report_has_all_that_the_page_has() -> None:
    told = report(troubled("plain words"))
    for part in (
        "- 3 wait for room under the caps, the oldest for 2 min: op-1",
        "## Runs with nodes\n- plain words: 1 node of plain words, ends in 10 min\n- and more",
        "## Failed in the last day\n- 1 × boot_timeout of plain words revision 7, last 2 min ago",
        "e.g. node-1: plain words",
        "## Stuck terminating\n- plain words at simulated (node-1) for 1 h",
        "## Orphans",
        "1970-01-02 03:46:40 UTC: plain words, by plain words",
        "- ci revision 7: 4 idle (min",
        "used, paused",
        "3 of 4 nodes warm (75%), ready in 0.4 s (p50), 12.5 s (p95)",
        "- store: 100 calls, 0 errors, p95 ≤ 5 ms",
        "- ec2: 9 calls, 9 errors, 0 throttled; last error: plain words",
        "- duty reaper: last tick 5 min ago; plain words",
    ):
        assert part in told, part


def test_no_name_can_be_markup_or_begin_a_line() -> None:
    told = report(troubled(HOSTILE))
    assert not re.search(r"(?<!\\)<script", told)
    assert "\n# Oh" not in told
    assert not re.search(r"(?<!\\)\[x(?<!\\)\]", told)
    assert not re.search(r"(?<!\\)`", told)
    long = report(troubled("x" * 5000))
    assert max(map(len, long.splitlines())) < 1500


def test_the_day_is_left_out_only_if_all_of_it_is_of_the_last_hour() -> None:
    seen = troubled("words")
    day = seen.failed_day
    told = report(replace(seen, failed_hour=day))
    assert "## Failed in the last day\nAll of it in the last hour." in told
    fewer = Failures(groups=(replace(day.groups[0], nodes=5, first_at=NOW - 7200),), more=False)
    told = report(replace(seen, failed_hour=day, failed_day=fewer))
    assert "hour\n- 1 × boot_timeout" in told and "day\n- 5 × boot_timeout" in told
