"""Templates and requests as a whole: every field is checked, and its refusal names that field."""

import math
from dataclasses import fields
from typing import Any

import pytest

from muster.domain import checks
from muster.domain.errors import InvalidRequest
from muster.domain.requests import HOLD_MAX, ProvisionRequest, RefillRequest, ReleaseRequest
from muster.domain.template import (
    CPU_MOST,
    MEMORY_LEAST,
    MEMORY_MOST,
    RESOURCE_CLASSES,
    ResourceClass,
    Reuse,
    Runtime,
    Template,
    TemplateSpec,
    UsageClass,
)
from muster.integrations.ec2.tables import DISK_MOST, HOPS_MOST, PERCENT_MOST, Architecture, Ec2Spec
from tests.domain.builders import kind

Values = dict[str, list[Any]]

NOT_NAMES = ["", "Web", "a b", "a\n", "a" * (checks.NAME_MAX + 1), "x" * 10**6, None, 3, True]
NOT_TEXTS = ["", " a", "a\n", "a\0", "x" * (checks.RUN_MAX + 1), None, 3, True]
NOT_SECONDS = [0, -1, checks.SECONDS_MAX + 1, 10**9, math.nan, math.inf, "3", True]
NOT_SECONDS_OR_ZERO = [-1, *NOT_SECONDS[2:]]
NOT_WHOLE = [-1, 10**9, 10**5000, 1.0, math.nan, math.inf, "3", True, None]
NOT_CLASSES = ["", "Large", "huge", 3, ["large"]]
NOT_PATTERNS = [(), ["c*"], "c*", ("c?",), ("a b",), (3,)]
NOT_USAGE = [
    (),
    "spot",
    ("spot",),
    (UsageClass.SPOT, UsageClass.SPOT),
    (UsageClass.SPOT, "on-demand"),
    [UsageClass.SPOT],
]

BAD_TEMPLATES: Values = {
    "name": NOT_NAMES,
    "provider": NOT_NAMES,
    "resource_class": [*NOT_CLASSES, None],
    "classes": [None, "small", ("small",), [RESOURCE_CLASSES["small"]], (RESOURCE_CLASSES["small"],) * 2],
    "runtime": NOT_NAMES,
    "boot_script": [None, 3, b"", "a\0", "x" * (checks.SCRIPT_MAX + 1)],
    "usage": [*NOT_USAGE, None],
    "instance_types": [*NOT_PATTERNS, None],
    "reuse": ["never", "sometimes", None, False],
    "max_nodes": [*NOT_WHOLE, checks.MACHINES_MAX + 1],
    "min_idle": [*NOT_WHOLE, checks.COUNT_MAX + 1],
    "replacements": [*NOT_WHOLE, checks.COUNT_MAX + 1],
    "provision_timeout": NOT_SECONDS,
    "max_provision_timeout": NOT_SECONDS,
    "stall_after": NOT_SECONDS,
    "learn": [None, 0, 1, "true"],
    "attach_timeout": NOT_SECONDS,
    "max_runtime": [*NOT_SECONDS, None],
    "idle_timeout": [*NOT_SECONDS, None],
    "rescue_window": [*NOT_SECONDS_OR_ZERO, None],
    "tables": [None, "acme", {"runner": "acme"}, {"runner": ["acme"]}, {"name": {}}],
    "retired": [None, 0, "yes"],
    "outfit": [each for each in NOT_TEXTS if each != ""],
}
BAD_PROVISIONS: Values = {
    "template": NOT_NAMES,
    "count": [*NOT_WHOLE, 0, checks.COUNT_MAX + 1],
    "run": NOT_TEXTS,
    "owner": NOT_TEXTS,
    "resource_class": NOT_CLASSES,
    "usage": NOT_USAGE,
    "instance_types": NOT_PATTERNS,
    "max_runtime": NOT_SECONDS,
    "timeout": NOT_SECONDS,
    "queue_timeout": [*NOT_SECONDS_OR_ZERO, None],
    "hold_on_failure": [*NOT_SECONDS, HOLD_MAX + 1],
    "tables": [None, "acme", {"workflow": "acme"}, {"workflow": 3}, {"run": {}}],
}
BAD_RELEASES: Values = {
    "operation_id": NOT_TEXTS,
    "assignment_ids": [(), "as-1", ["as-1"], 3, ("",), ("as-1", None), ("a",) * (checks.COUNT_MAX + 1)],
    "already": [None, 0, "yes"],
}
BAD_REFILLS: Values = {
    "template": NOT_NAMES,
    "revision": [*NOT_WHOLE, 0, checks.MACHINES_MAX + 1],
    "count": [*NOT_WHOLE, 0, checks.COUNT_MAX + 1],
}

EC2: dict[str, Any] = {"image": "ami-0123456789abcdef0", "subnets": ("subnet-0123456789abcdef0",)}
BAD_EC2: Values = {
    "image": ["", "ami-", "ami-xyz", "0123456789abcdef0", None, 1],
    "subnets": [(), ("subnet-x",), EC2["subnets"] * 2, "subnet-0123456789abcdef0", (None,)],
    "security_groups": [("sg-x",), ("sg-01234567",) * 2, "sg-01234567", ["sg-01234567"]],
    "instance_profile": [" ", "a b", "arn:aws:iam::1:role/x y", 1],
    "architecture": ["x86_64", "sparc", None],
    "disk_gib": [0, -1, DISK_MOST + 1, 1.5, True, "50"],
    "price_protection": [0, PERCENT_MOST + 1, None, "20"],
    "hop_limit": [0, HOPS_MOST + 1, None, True],
}
GOOD: dict[type, dict[str, Any]] = {
    Ec2Spec: EC2,
    TemplateSpec: {"name": "web", "provider": "simulated"},
    ProvisionRequest: {"template": "web", "count": 1, "run": "r"},
    ReleaseRequest: {"operation_id": "op-1"},
    RefillRequest: {"template": "web", "revision": 1, "count": 1},
}
BAD: dict[type, Values] = {
    Ec2Spec: BAD_EC2,
    TemplateSpec: BAD_TEMPLATES,
    ProvisionRequest: BAD_PROVISIONS,
    ReleaseRequest: BAD_RELEASES,
    RefillRequest: BAD_REFILLS,
}
ROWS = [(cls, field, value) for cls, rows in BAD.items() for field, row in rows.items() for value in row]


@pytest.mark.parametrize(("cls", "field", "value"), ROWS, ids=kind)
def test_a_bad_value_is_refused_with_its_field_and_rule(cls: type, field: str, value: object) -> None:
    with pytest.raises(InvalidRequest) as caught:
        cls(**(GOOD[cls] | {field: value}))
    assert caught.value.field == field
    assert str(caught.value).startswith(f"cannot accept {field} = ")
    assert caught.value.rule.startswith("must ")


@pytest.mark.parametrize("cls", GOOD)
def test_every_field_has_rows_of_bad_values(cls: type) -> None:
    assert set(BAD[cls]) == {field.name for field in fields(cls)}


LONGEST = checks.SECONDS_MAX
EDGES: list[tuple[type, dict[str, Any]]] = [
    (TemplateSpec, {"provider": "ec2", "tables": {"ec2": {"image": "ami-0123456789abcdef0"}}}),
    (Ec2Spec, {"disk_gib": 1, "price_protection": 1, "hop_limit": 1}),
    (Ec2Spec, {"disk_gib": DISK_MOST, "price_protection": PERCENT_MOST, "hop_limit": HOPS_MOST}),
    (Ec2Spec, {"instance_profile": "arn:aws:iam::123456789012:instance-profile/path/ci"}),
    (Ec2Spec, {"architecture": Architecture.ARM64, "security_groups": ("sg-01234567", "sg-89abcdef")}),
    (TemplateSpec, {}),
    (TemplateSpec, {"max_nodes": 0}),
    (TemplateSpec, {"max_nodes": checks.MACHINES_MAX, "min_idle": checks.COUNT_MAX}),
    (TemplateSpec, {"max_nodes": 5, "min_idle": 5, "replacements": checks.COUNT_MAX}),
    (TemplateSpec, {"rescue_window": 0, "max_runtime": LONGEST, "idle_timeout": LONGEST}),
    (TemplateSpec, {"provision_timeout": LONGEST, "max_provision_timeout": LONGEST, "attach_timeout": 0.1}),
    (
        TemplateSpec,
        {"usage": (UsageClass.SPOT, UsageClass.ON_DEMAND), "boot_script": "x" * checks.SCRIPT_MAX},
    ),
    (TemplateSpec, {"runtime": Runtime.SERVICE, "reuse": Reuse.NEVER}),
    (ProvisionRequest, {"count": checks.COUNT_MAX, "run": "x" * checks.RUN_MAX, "owner": "o/r"}),
    (ProvisionRequest, {"usage": (UsageClass.SPOT,), "instance_types": ("c*",), "resource_class": "small"}),
    (ProvisionRequest, {"max_runtime": 1, "timeout": LONGEST, "queue_timeout": LONGEST}),
    (ProvisionRequest, {"hold_on_failure": HOLD_MAX}),
    (ReleaseRequest, {"assignment_ids": ("as-1",) * checks.COUNT_MAX}),
    (RefillRequest, {"revision": checks.MACHINES_MAX, "count": checks.COUNT_MAX}),
]


@pytest.mark.parametrize(("cls", "given"), EDGES)
def test_values_on_the_edge_of_the_rule_are_accepted(cls: type, given: dict[str, Any]) -> None:
    made = cls(**(GOOD[cls] | given))
    assert {field: getattr(made, field) for field in given} == given


def test_the_minimum_of_a_pool_may_not_exceed_its_cap() -> None:
    with pytest.raises(InvalidRequest, match=r"min_idle = 6: must not exceed max_nodes \(5\)"):
        TemplateSpec(name="web", provider="simulated", max_nodes=5, min_idle=6)


def test_services_have_no_warm_minimum() -> None:
    with pytest.raises(InvalidRequest, match="min_idle = 1: must be 0 for services"):
        TemplateSpec(name="web", provider="external", runtime=Runtime.SERVICE, min_idle=1)


def test_the_defaults_of_a_template_are_those_of_the_design() -> None:
    spec = TemplateSpec(name="web", provider="simulated")
    assert (spec.max_runtime, spec.idle_timeout, spec.rescue_window) == (30 * 60, 6 * 60, 120)
    assert (spec.reuse, spec.replacements, spec.min_idle) == (Reuse.SAME_OWNER, 0, 0)
    assert (spec.usage, spec.instance_types) == ((UsageClass.ON_DEMAND,), ("*",))
    assert (spec.resource_class, spec.runtime, spec.max_nodes) == ("large", Runtime.EXEC, 20)


def test_a_provision_follows_its_template_and_does_not_queue_unless_told() -> None:
    asked = ProvisionRequest(template="web", count=1, run="r")
    assert (asked.owner, asked.queue_timeout) == ("default", 0.0)
    followed = (asked.resource_class, asked.usage, asked.instance_types, asked.max_runtime, asked.timeout)
    assert set(followed) == {None}


def test_only_a_template_whose_nodes_never_serve_twice_does_not_pool() -> None:
    pools = {rule: TemplateSpec(name="web", provider="simulated", reuse=rule).pools for rule in Reuse}
    assert pools == {Reuse.NEVER: False, Reuse.SAME_OWNER: True, Reuse.ALWAYS: True}


def test_the_sizes_are_those_of_the_design() -> None:
    sizes = {name: (size.cpu, size.memory_mib) for name, size in RESOURCE_CLASSES.items()}
    assert sizes == {
        "small": (1, 1024),
        "large": (2, 4096),
        "xlarge": (4, 8192),
        "2xlarge": (8, 16384),
        "4xlarge": (16, 32768),
        "8xlarge": (32, 65536),
        "12xlarge": (48, 98304),
        "16xlarge": (64, 131072),
    }
    assert all(size.name == name for name, size in RESOURCE_CLASSES.items())


def test_a_template_can_have_sizes_of_its_own() -> None:
    own = ResourceClass(name="small", cpu=3, memory_mib=MEMORY_LEAST)
    spec = TemplateSpec(name="web", provider="simulated", classes=(own,))
    assert spec.size("small") is own
    assert spec.size("large") is RESOURCE_CLASSES["large"]


@pytest.mark.parametrize(
    ("field", "size"),
    [
        ("classes", {"name": "tiny"}),
        ("cpu", {"cpu": 0}),
        ("cpu", {"cpu": CPU_MOST + 1}),
        ("memory_mib", {"memory_mib": MEMORY_LEAST - 1}),
        ("memory_mib", {"memory_mib": MEMORY_MOST + 1}),
    ],
)
def test_a_size_that_no_machine_has_is_refused(field: str, size: dict[str, Any]) -> None:
    def given() -> TemplateSpec:
        own = ResourceClass(**{"name": "small", "cpu": 1, "memory_mib": 1024, **size})
        return TemplateSpec(name="web", provider="simulated", classes=(own,))

    with pytest.raises(InvalidRequest) as refused:
        given()
    assert refused.value.field == field


def test_a_size_given_twice_is_refused() -> None:
    own = RESOURCE_CLASSES["small"]
    with pytest.raises(InvalidRequest, match="once"):
        TemplateSpec(name="web", provider="simulated", classes=(own, own))


def test_a_stored_template_is_named_by_its_content() -> None:
    spec = TemplateSpec(name="web", provider="simulated")
    assert Template(spec=spec, revision=1, applied_at=0.0).name == "web"
