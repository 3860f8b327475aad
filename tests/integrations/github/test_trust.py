"""Which workflows are trusted, by what is proven of them, and for what."""

import re
from typing import Any

import pytest

from muster.domain.access import Role
from muster.domain.errors import Forbidden, InvalidRequest
from muster.domain.requests import ProvisionRequest
from muster.domain.template import TemplateSpec
from muster.integrations.github.trust import Confinement, Trust, Workload, confined

MAIN = "refs/heads/main"
CI = f"acme/shop/.github/workflows/ci.yml@{MAIN}"


def _confined(*rules: Trust, **claims: Any) -> Confinement:
    known = {"repository": "acme/shop", "ref": MAIN, "run_id": 7, "attempt": 1}
    more = {"workflow_ref": CI, "event": "push", "repository_id": 74}
    return confined(rules, Workload(**{**known, **more, **claims}))


def _rule(**fields: Any) -> Trust:
    return Trust(**{"name": "shop", "repository": "acme/shop", "templates": ("ci",), **fields})


def _refused(rule: Trust, **claims: Any) -> str:
    with pytest.raises(Forbidden, match=r"no \[trust\] rule of this server covers them") as refusal:
        _confined(rule, **claims)
    return str(refusal.value)


SHOP = _rule(refs=("refs/heads/*",))


def test_a_trusted_workflow_is_held_to_its_repository_run_and_templates() -> None:
    held = _confined(SHOP, _rule(name="all", repository="Acme/*", templates=("big", "ci")))
    assert (held.repository, held.run_id, held.attempt) == ("acme/shop", 7, 1)
    assert held.run == "acme/shop/7-1"
    assert (held.role, held.templates) == (Role.OPERATOR, ("ci", "big"))


def test_who_may_only_look_provisions_nothing_whatever_the_rule_names() -> None:
    looks = _rule(name="looks", role=Role.VIEWER, templates=("gpu",))
    held = _confined(looks)
    assert (held.role, held.templates) == (Role.VIEWER, ())
    held = _confined(looks, SHOP)
    assert (held.role, held.templates) == (Role.OPERATOR, ("ci",))


@pytest.mark.parametrize(
    "other",
    [
        {"repository": "acme/shopping"},
        {"repository": "evil/acme/shop"},
        {"repository": "xacme/shop"},
        {"ref": "refs/tags/v1"},
        {"ref": "refs/pull/1/merge"},
    ],
)
def test_a_workflow_that_no_rule_covers_is_refused(other: dict[str, str]) -> None:
    _refused(SHOP, **other)


def test_a_refusal_says_all_that_a_rule_could_go_by() -> None:
    said = _refused(SHOP, ref="refs/tags/v1", environment="staging")
    assert said.startswith(
        "cannot accept workflows of acme/shop (id 74) at refs/tags/v1 in the environment staging, on push, "
        f"defined by {CI}: "
    )
    said = _refused(SHOP, ref="refs/tags/v1", event="", workflow_ref="", repository_id=0)
    assert said.startswith("cannot accept workflows of acme/shop (id unknown) at refs/tags/v1: ")


def test_a_rule_may_ask_for_a_deployment_environment() -> None:
    rule = _rule(environment="production")
    assert _confined(rule, environment="production").templates == ("ci",)
    _refused(rule, environment="staging")
    _refused(rule)


def test_a_name_that_another_repository_has_by_now_inherits_no_trust() -> None:
    rule = _rule(repository_id=74)
    assert _confined(rule).rules == (rule,)
    for other in (75, 0):
        _refused(rule, repository_id=other)
    moved = _rule(repository="acme/*", repository_id=74)
    assert _confined(moved, repository="acme/store").rules == (moved,), "the same, under a new name"


def test_a_rule_may_name_the_events_that_begin_a_run() -> None:
    rule = _rule(events=("push", "workflow_dispatch"))
    for event in ("push", "workflow_dispatch"):
        assert _confined(rule, event=event).rules == (rule,)
    for event in ("pull_request", "pull_request_target", "PUSH", "push ", ""):
        _refused(rule, event=event)


def test_a_rule_may_name_the_repository_s_own_workflow_files() -> None:
    rule = _rule(workflows=(".github/workflows/ci.yml", ".github/workflows/nightly-*.yml"))
    for home, file in (("acme/shop", "ci.yml"), ("acme/shop", "nightly-1.yml"), ("Acme/Shop", "ci.yml")):
        held = _confined(rule, workflow_ref=f"{home}/.github/workflows/{file}@{MAIN}")
        assert held.rules == (rule,)


@pytest.mark.parametrize(
    "file",
    [
        f"acme/shop/.github/workflows/other.yml@{MAIN}",
        f"acme/shop/.github/workflows/CI.yml@{MAIN}",
        f"acme/web/.github/workflows/ci.yml@{MAIN}",
        "acme/shop/.github/workflows/ci.yml@refs/heads/mine",
        f"acme/shop/.github/workflows/ci.yml@refs/heads/mine@{MAIN}",
        f"acme/shop/.github/workflows/ci.yml@mine.yml@{MAIN}",
        f"acme/shop/x/.github/workflows/ci.yml@{MAIN}",
        "acme/shop/.github/workflows/ci.yml",
        "",
    ],
)
def test_a_job_that_another_file_or_another_version_of_it_defines_is_refused(file: str) -> None:
    """Also one that a trusted run calls from a branch that anybody may push."""
    _refused(_rule(workflows=(".github/workflows/ci.yml",)), workflow_ref=file)


def test_a_rule_may_name_a_reusable_workflow_at_its_refs() -> None:
    rule = _rule(workflows=("Acme/shared/.github/workflows/runners.yml@refs/tags/v1*",))
    _confined(rule, workflow_ref="acme/shared/.github/workflows/runners.yml@refs/tags/v1.2")
    for other in ("refs/heads/v1", "refs/tags/v2", "0" * 40, "refs/heads/x@refs/tags/v1"):
        _refused(rule, workflow_ref=f"acme/shared/.github/workflows/runners.yml@{other}")
    _refused(rule, workflow_ref="acme/shop/.github/workflows/runners.yml@refs/tags/v1")
    _refused(rule)
    anywhere = _rule(workflows=("acme/shared/.github/workflows/runners.yml@*",))
    _confined(anywhere, workflow_ref="acme/shared/.github/workflows/runners.yml@refs/heads/x")
    _refused(anywhere, workflow_ref="acme/shared/.github/workflows/runners.yml@mine.yml@refs/heads/x")
    pinned = _rule(workflows=(f"acme/shared/.github/workflows/runners.yml@{'a1' * 20}",))
    _confined(pinned, workflow_ref=f"acme/shared/.github/workflows/runners.yml@{'a1' * 20}")


@pytest.mark.parametrize(
    "pattern",
    [
        ".github/workflows/*",
        f"acme/shop/.github/workflows/*@{MAIN}",
        f"acme/*/.github/workflows/ci*@{MAIN}",
    ],
)
@pytest.mark.parametrize("odd", ["ci.yml@refs/heads/mine", "ci.yml@mine.yml"])
def test_a_ref_or_a_file_whose_name_looks_like_another_ref_deceives_no_pattern(
    pattern: str, odd: str
) -> None:
    rule = _rule(workflows=(pattern,))
    assert _confined(rule).rules == (rule,)
    _refused(rule, workflow_ref=f"acme/shop/.github/workflows/{odd}@{MAIN}")


def test_patterns_know_no_other_signs_than_the_star() -> None:
    _refused(_rule(repository="acme/sho?"))
    _refused(_rule(repository="acme/[s]hop"))


@pytest.mark.parametrize(
    "fields",
    [
        {"repository": "*"},
        {"repository": "*/shop"},
        {"repository": "acme"},
        {"repository_id": -1},
        {"repository_id": "74"},
        {"role": Role.ADMIN},
        {"role": Role.ENROL},
        {"templates": ()},
        {"templates": ("No Name",)},
        {"workflows": ("ci.yml",)},
        {"workflows": (".github/workflows/",)},
        {"workflows": ("*",)},
        {"workflows": ("*/shared/.github/workflows/ci.yml@refs/heads/main",)},
        {"workflows": ("acme/shared/.github/workflows/ci.yml",)},
        {"workflows": (".github/workflows/ci.yml@refs/heads/main",)},
        {"events": ("Push",)},
        {"events": ("",)},
        {"events": ("pull*",)},
        {"resource_classes": ("huge",)},
        {"instance_types": ("c5 large",)},
    ],
)
def test_a_rule_that_trusts_too_much_or_nothing_is_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequest) as refused:
        _rule(**fields)
    assert refused.value.field in fields


# --- how much -------------------------------------------------------------------------------------


SPEC = TemplateSpec(name="ci", provider="process", resource_class="large", instance_types=("t*",))
BOUND = _rule(resource_classes=("xlarge",), instance_types=("c*", "m7*"))


def _asks(*rules: Trust, **fields: Any) -> None:
    _confined(*rules).check(ProvisionRequest(template="ci", count=1, run="acme/shop/7-1", **fields), SPEC)


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"resource_class": "large"},
        {"resource_class": "xlarge"},
        {"instance_types": ("t*",)},
        {"instance_types": ("c*", "m7*")},
        {"instance_types": ("c6*.large", "C5*", "m7g.xlarge")},
    ],
)
def test_a_workflow_may_ask_for_the_template_s_size_or_those_of_its_rule(fields: dict[str, Any]) -> None:
    _asks(BOUND, **fields)


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"resource_class": "16xlarge"}, "resource_class must be one of large, xlarge"),
        ({"instance_types": ("p5*",)}, r"instance_types must be within c\* m7\*, not p5\*"),
        ({"instance_types": ("c*", "*")}, r"instance_types must be within c\* m7\*, not \*$"),
        ({"instance_types": ("m*",)}, r"not m\*"),
        ({"instance_types": ("t2*",)}, r"not t2\*"),
    ],
)
def test_a_workflow_may_not_ask_for_more(fields: dict[str, Any], words: str) -> None:
    advice = "; an operator may allow more in [trust.shop]"
    with pytest.raises(Forbidden) as refusal:
        _asks(BOUND, **fields)
    said = str(refusal.value)
    assert said.endswith(advice)
    assert re.search(words, said.removesuffix(advice)), said


def test_a_rule_without_bounds_trusts_a_workflow_with_any_size() -> None:
    _asks(SHOP, resource_class="16xlarge", instance_types=("p5*",))


def test_each_rule_keeps_its_own_bounds() -> None:
    big = _rule(name="big", templates=("big",))
    other = _rule(name="other", resource_classes=("2xlarge",))
    with pytest.raises(Forbidden, match="one of large, xlarge"):
        _asks(BOUND, big, resource_class="16xlarge")
    _asks(BOUND, other, resource_class="2xlarge", instance_types=("p5*",))
    with pytest.raises(Forbidden, match="not p5"):
        _asks(BOUND, other, resource_class="xlarge", instance_types=("p5*",))
