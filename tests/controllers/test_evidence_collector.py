"""The collector: one bundle per failure, bounded, redacted or withheld, and then the node is let go."""

import asyncio
from typing import Any

from muster.controllers import evidence_collector
from muster.controllers.evidence_collector import EvidenceCollector
from muster.domain.deadlines import COLLECTING, RESCUABLE
from muster.domain.diagnosis import WORDS_MOST, Bundle, Cause, Section, Source, ending
from muster.domain.diagnosis_rules import classify
from muster.domain.errors import Uncertain
from muster.domain.lifecycle import NodeState
from muster.domain.node import Node
from muster.domain.reasons import Reason
from muster.domain.redaction import MARK
from muster.operations.evidence import LINES, PATIENCE
from tests.harness import NEVER_BOOTS, Behaviour, Harness, with_harness
from tests.harness.cloud import HANG

SECRET = "ghp_abcdefghijklmnopqrst1234"
FAILS = Behaviour(
    fails=f"the boot script ended with 3\ntoken={SECRET}\nboot: line 2: frob: command not found"
)


async def failed(harness: Harness, *manners: Behaviour, **template: Any) -> list[Node]:
    """Nodes whose boot just failed, without a controller that handles them."""
    await harness.template(**{"rescue_window": 120.0} | template)
    harness.agents.script(*manners)
    replica = await harness.replica()
    # Nothing is collected before the test says so.
    replica.interceptor.deny["undiagnosed"] = Uncertain("not yet")
    await replica.provision(len(manners))
    nodes = await harness.count(len(manners), NodeState.FAILED)
    replica.life.kill()
    return nodes


async def bundle_of(harness: Harness, node: Node) -> Bundle:
    found = await harness.store.bundle(node.id)
    assert found is not None
    return found


def section(bundle: Bundle, name: Source) -> Section:
    found = bundle.section(name)
    assert found is not None
    return found


@with_harness
async def test_a_failed_node_leaves_a_bundle_of_four_sections_and_one_event(harness: Harness) -> None:
    (node,) = await failed(harness, FAILS)
    harness.cloud.consoles[node.machine_id] = "\n".join(f"line {n}" for n in range(1000))
    await EvidenceCollector(harness.ports).reconcile()
    bundle = await bundle_of(harness, node)
    assert [each.name for each in bundle.sections] == list(Source)
    assert (bundle.reason, bundle.collected_at) == (Reason.BOOT_SCRIPT_FAILED, harness.now)
    assert "launch" in section(bundle, Source.PHASES).text and "joined" in section(bundle, Source.PHASES).text
    assert "line 2: frob" in section(bundle, Source.AGENT).text
    console = section(bundle, Source.CONSOLE).text.split("\n")
    assert (len(console), console[-1]) == (LINES, "line 999")
    assert "state: running" in section(bundle, Source.PROVIDER).text
    events = await harness.events(node.id, "collected")
    assert len(events) == 1
    told = classify(bundle)
    assert told.cause is Cause.SCRIPT_FAILED and "line 2 in `frob`" in told.summary


@with_harness
async def test_nothing_secret_is_kept(harness: Harness) -> None:
    (node,) = await failed(harness, FAILS)
    harness.cloud.consoles[node.machine_id] = f"export TOKEN={SECRET}\nAKIAIOSFODNN7EXAMPLE\nfine"
    await EvidenceCollector(harness.ports).reconcile()
    bundle = await bundle_of(harness, node)
    assert "ghp_" not in repr(bundle) and "AKIA" not in repr(bundle) and MARK in repr(bundle)
    assert "fine" in section(bundle, Source.CONSOLE).text


@with_harness
async def test_no_event_tells_a_secret_that_a_boot_script_said(harness: Harness) -> None:
    (node,) = await failed(harness, FAILS)
    assert "ghp_" not in repr(await harness.events()) and "ghp_" not in repr(node)
    assert [MARK in event.detail for event in await harness.events(node.id, "fail")] == [True]


@with_harness
async def test_a_section_that_cannot_be_redacted_is_withheld_and_the_others_are_kept(
    harness: Harness,
) -> None:
    (node,) = await failed(harness, FAILS)
    harness.cloud.consoles[node.machine_id] = "poison"

    def picky(text: str) -> str:
        if "poison" in text:
            raise ValueError(text)
        return text

    await EvidenceCollector(harness.ports, picky).reconcile()
    bundle = await bundle_of(harness, node)
    assert section(bundle, Source.CONSOLE) == Section(
        name=Source.CONSOLE, missing="withheld: it could not be redacted"
    )
    assert section(bundle, Source.PROVIDER).text
    (complaint,) = harness.complaints
    assert "poison" not in complaint.getMessage() and complaint.exc_info is None
    harness.complaints.clear()


@with_harness
async def test_without_a_redactor_there_is_no_bundle_and_the_node_is_let_go_all_the_same(
    harness: Harness,
) -> None:
    (node,) = await failed(harness, FAILS)
    await EvidenceCollector(harness.ports, None).reconcile()
    assert await harness.store.bundle(node.id) is None
    assert (await harness.node(node.id)).state is NodeState.TERMINATING


@with_harness
async def test_a_node_that_failed_for_good_is_condemned_once_its_bundle_is_filed(harness: Harness) -> None:
    (node,) = await failed(harness, FAILS)
    await EvidenceCollector(harness.ports).reconcile()
    gone = await harness.node(node.id)
    assert (gone.state, gone.reason, gone.detail) == (NodeState.TERMINATING, node.reason, node.detail)


@with_harness
async def test_without_a_rescue_window_a_late_node_goes_once_its_bundle_is_filed(harness: Harness) -> None:
    (node,) = await failed(harness, NEVER_BOOTS, provision_timeout=30.0, rescue_window=0.0)
    assert node.reason in RESCUABLE
    await EvidenceCollector(harness.ports).reconcile()
    await bundle_of(harness, node)
    assert (await harness.node(node.id)).state is NodeState.TERMINATING


@with_harness
async def test_a_node_that_may_be_rescued_is_kept(harness: Harness) -> None:
    (node,) = await failed(harness, NEVER_BOOTS, provision_timeout=30.0)
    assert node.reason in RESCUABLE
    await EvidenceCollector(harness.ports).reconcile()
    await bundle_of(harness, node)
    assert (await harness.node(node.id)).state is NodeState.FAILED


@with_harness
async def test_of_a_boot_that_did_not_end_the_agent_s_own_log_is_told(harness: Harness) -> None:
    (node,) = await failed(harness, NEVER_BOOTS, provision_timeout=30.0)
    last = "2026-11-16T05:28:53Z the server did not answer: beat"
    words = f"2026-11-16T05:28:51Z joined as n\nkernel: hello\n{last}"
    harness.cloud.consoles[node.machine_id] = words
    await EvidenceCollector(harness.ports).reconcile()
    told = section(await bundle_of(harness, node), Source.AGENT).text.split("\n")
    assert told == [words.split("\n", maxsplit=1)[0], words.split("\n")[2]]
    assert len(harness.cloud.heard) == 1, "clouds count such calls"


@with_harness
async def test_an_agent_without_a_word_anywhere_leaves_a_marker(harness: Harness) -> None:
    (node,) = await failed(harness, NEVER_BOOTS, provision_timeout=30.0)
    harness.cloud.consoles[node.machine_id] = "kernel: hello"
    await EvidenceCollector(harness.ports).reconcile()
    assert "the console has none" in section(await bundle_of(harness, node), Source.AGENT).missing


@with_harness
async def test_the_first_bundle_stays(harness: Harness) -> None:
    (node,) = await failed(harness, NEVER_BOOTS, provision_timeout=30.0)
    harness.cloud.consoles[node.machine_id] = "first"
    await EvidenceCollector(harness.ports).reconcile()
    harness.cloud.consoles[node.machine_id] = "second"
    heard = len(harness.cloud.heard)
    await EvidenceCollector(harness.ports).reconcile()
    assert section(await bundle_of(harness, node), Source.CONSOLE).text == "first"
    assert len(harness.cloud.heard) == heard, "what is filed isn't collected again"


@with_harness
async def test_two_collectors_at_once_file_one_bundle_and_condemn_once(harness: Harness) -> None:
    (node,) = await failed(harness, FAILS)
    await asyncio.gather(
        EvidenceCollector(harness.ports).reconcile(), EvidenceCollector(harness.ports).reconcile()
    )
    assert len(await harness.events(node.id, "collected")) == 1
    assert len(await harness.events(node.id, "condemn")) == 1


@with_harness
async def test_a_console_that_hangs_leaves_a_marker_and_delays_no_other_node(harness: Harness) -> None:
    first, second = await failed(harness, FAILS, FAILS)
    harness.cloud.slow_consoles[first.machine_id] = HANG
    harness.cloud.consoles[second.machine_id] = "words"
    started = harness.now
    await EvidenceCollector(harness.ports).reconcile()
    assert harness.now - started <= PATIENCE < COLLECTING
    slow, quick = await bundle_of(harness, first), await bundle_of(harness, second)
    assert section(slow, Source.CONSOLE).missing == f"cannot be read: no answer within {PATIENCE:.0f} s"
    assert section(slow, Source.AGENT).text
    assert quick.collected_at == started and section(quick, Source.CONSOLE).text == "words"


@with_harness
async def test_a_provider_in_trouble_costs_its_sections_only(harness: Harness) -> None:
    (node,) = await failed(harness, FAILS)
    harness.cloud.trouble = Uncertain(f"the connection broke, password={SECRET}")
    await EvidenceCollector(harness.ports).reconcile()
    harness.cloud.trouble = None
    bundle = await bundle_of(harness, node)
    for name in (Source.CONSOLE, Source.PROVIDER):
        assert "the connection broke" in section(bundle, name).missing and "ghp_" not in repr(bundle)
    assert section(bundle, Source.PHASES).text and section(bundle, Source.AGENT).text


@with_harness
async def test_a_provider_that_is_no_more_costs_its_sections_only(harness: Harness) -> None:
    from dataclasses import replace

    (node,) = await failed(harness, FAILS)
    await EvidenceCollector(replace(harness.ports, providers={})).reconcile()
    bundle = await bundle_of(harness, node)
    assert section(bundle, Source.PROVIDER).missing and section(bundle, Source.AGENT).text


@with_harness
async def test_many_failures_are_collected_at_once(harness: Harness) -> None:
    count = 2 * evidence_collector.AT_ONCE + 1
    nodes = await failed(harness, *[FAILS] * count, max_nodes=count)
    for node in nodes:
        harness.cloud.slow_consoles[node.machine_id] = 2.0
    started = harness.now
    await EvidenceCollector(harness.ports).reconcile()
    assert harness.now - started == 6.0
    assert await harness.store.undiagnosed(limit=10) == []


@with_harness
async def test_a_replica_does_it_by_itself_and_nothing_is_left(harness: Harness) -> None:
    await harness.template()
    harness.agents.script(FAILS)
    replica = await harness.replica()
    operation = await harness.ended(await replica.provision(1))
    assert operation.verdict is not None and operation.verdict.reason is Reason.BOOT_SCRIPT_FAILED
    (node,) = await harness.of(operation.id)

    async def filed() -> bool:
        return await harness.store.bundle(node.id) is not None

    await harness.until(filed, within=COLLECTING)
    await harness.nothing_is_left()


def test_a_section_is_cut_by_whole_lines() -> None:
    long = "x" * (WORDS_MOST // 2)
    kept = ending(f"first {long}\nsecond {long}\nthird", lines=LINES)
    assert kept == f"second {long}\nthird"
