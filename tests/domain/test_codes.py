"""Every code has a cause, a cure and one place where it is explained."""

from dataclasses import replace
from pathlib import Path

import pytest

from muster.api import codes_page
from muster.domain import codes
from muster.domain.codes import ClientCode, Exit, FailureCode, ProblemCode, failure_code
from muster.domain.deadlines import Limits, attach_timeout
from muster.domain.operation import Kind, Status
from muster.domain.reasons import Reason
from muster.domain.template import RESOURCE_CLASSES, Runtime, TemplateSpec
from tools import reference

ROOT = Path(__file__).resolve().parents[2]
TABLES = ((FailureCode, codes.failures), (Reason, codes.reasons), (ProblemCode, codes.problems))


def test_the_page_on_the_codes_is_the_generated_one() -> None:
    assert (ROOT / "docs" / "codes.md").read_text(encoding="utf-8") == reference.codes(), "make codes"


def test_every_code_is_explained_with_cause_and_cure() -> None:
    for words, entries in (*TABLES, (ClientCode, codes.client)):
        assert [entry.code for entry in entries()] == [str(word) for word in words]
    assert [entry.code for entry in codes.exits()] == [str(int(each)) for each in Exit]
    for _, _, entries in codes_page.SECTIONS:
        for entry in entries():
            assert entry.cause.endswith(".") and entry.cure[-1] in ".`", entry
            assert len(entry.cause.split()) <= 25, entry


@pytest.mark.parametrize("page", [reference.codes(), codes_page.html()])
def test_each_code_has_one_anchor(page: str) -> None:
    everything = [entry.code for _, _, entries in codes_page.SECTIONS for entry in entries()]
    assert [page.count(f'<a id="{code}"></a>') for code in everything] == [1] * len(everything)


def test_a_kind_of_operation_that_fails_has_one_word_for_it() -> None:
    for kind in Kind:
        assert failure_code(kind, Status.FAILED) == f"{kind}_failed"
        assert failure_code(kind, Status.CANCELLED) is FailureCode.OPERATION_CANCELLED


def test_the_page_for_those_who_come_from_a_runner_pool_has_our_defaults() -> None:
    """Beside the numbers of the other system, which can't be checked here."""
    page = (ROOT / "docs" / "from-ec2-runner-pools.md").read_text(encoding="utf-8")
    limits, template = Limits(), TemplateSpec(name="ci", provider="process")
    runner, command = (attach_timeout(replace(template, runtime=each)) for each in ("github", Runtime.EXEC))
    for said in (
        f"| {limits.boot:g} s to boot,",
        f"`attach_timeout` {runner:g} s more",
        f"`attach_timeout`: {runner:g} s for runners, {command:g} s for commands",
        f"failed after {limits.stall_after:g} s without any progress",
        f"every {limits.stale_after / 4:g} s; fresh if at most {limits.stale_after:g} s old |",
        f"max runtime, {template.max_runtime / 60:g} min (`max_runtime`)",
        f"| {template.idle_timeout / 60:g} min (`idle_timeout`)",
        f"| {limits.releasing:g} s, in the state `releasing`",
        f"({template.usage[0]}, {template.resource_class})",
    ):
        assert said in page, said
    for each in RESOURCE_CLASSES.values():
        assert f"{each.cpu}/{each.memory_mib // 1024}" in page or each.name in ("small", "large")
