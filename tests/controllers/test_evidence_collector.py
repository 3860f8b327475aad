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
from tests.stage import NEVER_BOOTS, Manner, Stage, staged
from tests.stage.cloud import HANG

SECRET = "ghp_abcdefghijklmnopqrst1234"
FAILS = Manner(fails=f"the boot script ended with 3\ntoken={SECRET}\nboot: line 2: frob: command not found")


async def failed(stage: Stage, *manners: Manner, **template: Any) -> list[Node]:
    """Nodes whose boot just failed, and nobody who does anything about it."""
    await stage.template(**{"rescue_window": 120.0} | template)
    stage.agents.script(*manners)
    replica = await stage.replica()
    # Nothing is collected before the test says so.
    replica.ambush.deny["undiagnosed"] = Uncertain("not yet")
    await replica.provision(len(manners))
    nodes = await stage.count(len(manners), NodeState.FAILED)
    replica.life.kill()
    return nodes


async def bundle_of(stage: Stage, node: Node) -> Bundle:
    found = await stage.store.bundle(node.id)
    assert found is not None
    return found


def section(bundle: Bundle, name: Source) -> Section:
    found = bundle.section(name)
    assert found is not None
    return found


@staged
async def test_a_failed_node_leaves_a_bundle_of_four_sections_and_one_event(stage: Stage) -> None:
    (node,) = await failed(stage, FAILS)
    stage.cloud.consoles[node.machine_id] = "\n".join(f"line {n}" for n in range(1000))
    await EvidenceCollector(stage.ports).reconcile()
    bundle = await bundle_of(stage, node)
    assert [each.name for each in bundle.sections] == list(Source)
    assert (bundle.reason, bundle.collected_at) == (Reason.BOOT_SCRIPT_FAILED, stage.now)
    assert "launch" in section(bundle, Source.PHASES).text and "joined" in section(bundle, Source.PHASES).text
    assert "line 2: frob" in section(bundle, Source.AGENT).text
    console = section(bundle, Source.CONSOLE).text.split("\n")
    assert (len(console), console[-1]) == (LINES, "line 999")
    assert "state: running" in section(bundle, Source.PROVIDER).text
    events = await stage.events(node.id, "collected")
    assert len(events) == 1
    told = classify(bundle)
    assert told.cause is Cause.SCRIPT_FAILED and "line 2 in `frob`" in told.summary


@staged
async def test_nothing_secret_is_kept(stage: Stage) -> None:
    (node,) = await failed(stage, FAILS)
    stage.cloud.consoles[node.machine_id] = f"export TOKEN={SECRET}\nAKIAIOSFODNN7EXAMPLE\nfine"
    await EvidenceCollector(stage.ports).reconcile()
    bundle = await bundle_of(stage, node)
    assert "ghp_" not in repr(bundle) and "AKIA" not in repr(bundle) and MARK in repr(bundle)
    assert "fine" in section(bundle, Source.CONSOLE).text


@staged
async def test_no_event_tells_a_secret_that_a_boot_script_said(stage: Stage) -> None:
    (node,) = await failed(stage, FAILS)
    assert "ghp_" not in repr(await stage.events()) and "ghp_" not in repr(node)
    assert [MARK in event.detail for event in await stage.events(node.id, "fail")] == [True]


@staged
async def test_a_section_that_cannot_be_redacted_is_withheld_and_the_others_are_kept(stage: Stage) -> None:
    (node,) = await failed(stage, FAILS)
    stage.cloud.consoles[node.machine_id] = "poison"

    def picky(text: str) -> str:
        if "poison" in text:
            raise ValueError(text)
        return text

    await EvidenceCollector(stage.ports, picky).reconcile()
    bundle = await bundle_of(stage, node)
    assert section(bundle, Source.CONSOLE) == Section(
        name=Source.CONSOLE, missing="withheld: it could not be redacted"
    )
    assert section(bundle, Source.PROVIDER).text
    (complaint,) = stage.complaints
    assert "poison" not in complaint.getMessage() and complaint.exc_info is None
    stage.complaints.clear()


@staged
async def test_without_a_redactor_there_is_no_bundle_and_the_node_is_let_go_all_the_same(
    stage: Stage,
) -> None:
    (node,) = await failed(stage, FAILS)
    await EvidenceCollector(stage.ports, None).reconcile()
    assert await stage.store.bundle(node.id) is None
    assert (await stage.node(node.id)).state is NodeState.TERMINATING


@staged
async def test_a_node_that_failed_for_good_is_condemned_once_its_bundle_is_filed(stage: Stage) -> None:
    (node,) = await failed(stage, FAILS)
    await EvidenceCollector(stage.ports).reconcile()
    gone = await stage.node(node.id)
    assert (gone.state, gone.reason, gone.detail) == (NodeState.TERMINATING, node.reason, node.detail)


@staged
async def test_without_a_rescue_window_a_late_node_goes_once_its_bundle_is_filed(stage: Stage) -> None:
    (node,) = await failed(stage, NEVER_BOOTS, provision_timeout=30.0, rescue_window=0.0)
    assert node.reason in RESCUABLE
    await EvidenceCollector(stage.ports).reconcile()
    await bundle_of(stage, node)
    assert (await stage.node(node.id)).state is NodeState.TERMINATING


@staged
async def test_a_node_that_may_be_rescued_is_kept(stage: Stage) -> None:
    (node,) = await failed(stage, NEVER_BOOTS, provision_timeout=30.0)
    assert node.reason in RESCUABLE
    await EvidenceCollector(stage.ports).reconcile()
    await bundle_of(stage, node)
    assert (await stage.node(node.id)).state is NodeState.FAILED


@staged
async def test_of_a_boot_that_did_not_end_the_agent_s_own_log_is_told(stage: Stage) -> None:
    (node,) = await failed(stage, NEVER_BOOTS, provision_timeout=30.0)
    last = "2026-11-16T05:28:53Z the server did not answer: beat"
    words = f"2026-11-16T05:28:51Z joined as n\nkernel: hello\n{last}"
    stage.cloud.consoles[node.machine_id] = words
    await EvidenceCollector(stage.ports).reconcile()
    told = section(await bundle_of(stage, node), Source.AGENT).text.split("\n")
    assert told == [words.split("\n", maxsplit=1)[0], words.split("\n")[2]]
    assert len(stage.cloud.heard) == 1, "clouds count such calls"


@staged
async def test_an_agent_without_a_word_anywhere_leaves_a_marker(stage: Stage) -> None:
    (node,) = await failed(stage, NEVER_BOOTS, provision_timeout=30.0)
    stage.cloud.consoles[node.machine_id] = "kernel: hello"
    await EvidenceCollector(stage.ports).reconcile()
    assert "the console has none" in section(await bundle_of(stage, node), Source.AGENT).missing


@staged
async def test_the_first_bundle_stays(stage: Stage) -> None:
    (node,) = await failed(stage, NEVER_BOOTS, provision_timeout=30.0)
    stage.cloud.consoles[node.machine_id] = "first"
    await EvidenceCollector(stage.ports).reconcile()
    stage.cloud.consoles[node.machine_id] = "second"
    heard = len(stage.cloud.heard)
    await EvidenceCollector(stage.ports).reconcile()
    assert section(await bundle_of(stage, node), Source.CONSOLE).text == "first"
    assert len(stage.cloud.heard) == heard, "what is filed isn't collected again"


@staged
async def test_two_collectors_at_once_file_one_bundle_and_condemn_once(stage: Stage) -> None:
    (node,) = await failed(stage, FAILS)
    await asyncio.gather(
        EvidenceCollector(stage.ports).reconcile(), EvidenceCollector(stage.ports).reconcile()
    )
    assert len(await stage.events(node.id, "collected")) == 1
    assert len(await stage.events(node.id, "condemn")) == 1


@staged
async def test_a_console_that_hangs_leaves_a_marker_and_holds_up_nobody(stage: Stage) -> None:
    first, second = await failed(stage, FAILS, FAILS)
    stage.cloud.slow_consoles[first.machine_id] = HANG
    stage.cloud.consoles[second.machine_id] = "words"
    started = stage.now
    await EvidenceCollector(stage.ports).reconcile()
    assert stage.now - started <= PATIENCE < COLLECTING
    slow, quick = await bundle_of(stage, first), await bundle_of(stage, second)
    assert section(slow, Source.CONSOLE).missing == f"cannot be read: no answer within {PATIENCE:.0f} s"
    assert section(slow, Source.AGENT).text
    assert quick.collected_at == started and section(quick, Source.CONSOLE).text == "words"


@staged
async def test_a_provider_in_trouble_costs_its_sections_only(stage: Stage) -> None:
    (node,) = await failed(stage, FAILS)
    stage.cloud.trouble = Uncertain(f"the connection broke, password={SECRET}")
    await EvidenceCollector(stage.ports).reconcile()
    stage.cloud.trouble = None
    bundle = await bundle_of(stage, node)
    for name in (Source.CONSOLE, Source.PROVIDER):
        assert "the connection broke" in section(bundle, name).missing and "ghp_" not in repr(bundle)
    assert section(bundle, Source.PHASES).text and section(bundle, Source.AGENT).text


@staged
async def test_a_provider_that_is_no_more_costs_its_sections_only(stage: Stage) -> None:
    from dataclasses import replace

    (node,) = await failed(stage, FAILS)
    await EvidenceCollector(replace(stage.ports, providers={})).reconcile()
    bundle = await bundle_of(stage, node)
    assert section(bundle, Source.PROVIDER).missing and section(bundle, Source.AGENT).text


@staged
async def test_many_failures_are_collected_at_once(stage: Stage) -> None:
    count = 2 * evidence_collector.AT_ONCE + 1
    nodes = await failed(stage, *[FAILS] * count, max_nodes=count)
    for node in nodes:
        stage.cloud.slow_consoles[node.machine_id] = 2.0
    started = stage.now
    await EvidenceCollector(stage.ports).reconcile()
    assert stage.now - started == 6.0
    assert await stage.store.undiagnosed(limit=10) == []


@staged
async def test_a_replica_does_it_by_itself_and_nothing_is_left(stage: Stage) -> None:
    await stage.template()
    stage.agents.script(FAILS)
    replica = await stage.replica()
    operation = await stage.ended(await replica.provision(1))
    assert operation.verdict is not None and operation.verdict.reason is Reason.BOOT_SCRIPT_FAILED
    (node,) = await stage.of(operation.id)

    async def filed() -> bool:
        return await stage.store.bundle(node.id) is not None

    await stage.until(filed, within=COLLECTING)
    await stage.nothing_is_left()


def test_a_section_is_cut_by_whole_lines() -> None:
    long = "x" * (WORDS_MOST // 2)
    kept = ending(f"first {long}\nsecond {long}\nthird", lines=LINES)
    assert kept == f"second {long}\nthird"
