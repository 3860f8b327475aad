"""Templates, limits and brakes over the wire."""

from datetime import datetime
from typing import Annotated, Any, Self

from pydantic import Field

from muster.api.models.base import EXAMPLE_TIME, In, Out, at, example
from muster.api.models.clusters import ClusterSpecIn, ClusterSpecOut
from muster.api.models.ec2 import Ec2In, Ec2Out
from muster.domain.template import ResourceClass, Reuse, Runtime, Template, TemplateSpec, UsageClass
from muster.domain.workflow import RunnerSpec

SPEC_EXAMPLE: dict[str, Any] = {
    "provider": "process",
    "resource_class": "small",
    "classes": [{"name": "small", "cpu": 1, "memory_mib": 2048}],
    "runtime": "exec",
    "boot_script": "python3 -m venv /tmp/venv\n",
    "usage": ["on-demand"],
    "instance_types": ["*"],
    "reuse": "same-owner",
    "max_nodes": 20,
    "min_idle": 2,
    "replacements": 0,
    "provision_timeout": None,
    "max_provision_timeout": None,
    "stall_after": None,
    "learn": True,
    "attach_timeout": None,
    "max_runtime": 1800.0,
    "idle_timeout": 360.0,
    "rescue_window": 120.0,
    "ec2": None,
    "runner": {"scope": "", "group": "", "labels": [], "ephemeral": None},
    "cluster": None,
}


class RunnerOut(Out):
    """How nodes of the runtime github are registered."""

    scope: str
    group: str
    labels: list[str]
    ephemeral: bool | None

    @classmethod
    def of(cls, spec: RunnerSpec) -> Self:
        return cls(scope=spec.scope, group=spec.group, labels=list(spec.labels), ephemeral=spec.ephemeral)


class RunnerIn(In):
    scope: str = ""
    """An organisation or a repository; empty: the repository of the workflow that asks."""
    group: str = ""
    labels: list[str] = Field(default=[])
    ephemeral: bool | None = None
    """Whether a runner serves one job only. Null: where nodes are never reused."""

    def spec(self) -> RunnerSpec:
        return RunnerSpec(
            scope=self.scope, group=self.group, labels=tuple(self.labels), ephemeral=self.ephemeral
        )


class ClassIn(In):
    name: str
    cpu: int
    memory_mib: int


class SpecIn(In):
    """A template's content. What is left out takes its default; equal content keeps its revision."""

    model_config = example(SPEC_EXAMPLE)

    provider: str
    resource_class: str = "large"
    classes: list[ClassIn] = Field(default=[])
    """Resource classes that are another size here than usual."""
    runtime: Annotated[Runtime, Field(strict=False)] = Runtime.EXEC
    boot_script: str = ""
    usage: list[Annotated[UsageClass, Field(strict=False)]] = Field(default=[UsageClass.ON_DEMAND])
    instance_types: list[str] = Field(default=["*"])
    reuse: Annotated[Reuse, Field(strict=False)] = Reuse.SAME_OWNER
    max_nodes: int = 20
    min_idle: int = 0
    replacements: int = 0
    provision_timeout: float | None = None
    max_provision_timeout: float | None = None
    stall_after: float | None = None
    learn: bool = True
    attach_timeout: float | None = None
    max_runtime: float = 1800.0
    idle_timeout: float = 360.0
    rescue_window: float = 120.0
    ec2: Ec2In | None = None
    runner: RunnerIn = Field(default_factory=RunnerIn)
    cluster: ClusterSpecIn | None = None

    def spec(self, name: str) -> TemplateSpec:
        return TemplateSpec(
            name=name,
            provider=self.provider,
            resource_class=self.resource_class,
            classes=tuple(
                ResourceClass(name=each.name, cpu=each.cpu, memory_mib=each.memory_mib)
                for each in sorted(self.classes, key=lambda each: each.name)
            ),
            runtime=self.runtime,
            boot_script=self.boot_script,
            usage=tuple(self.usage),
            instance_types=tuple(self.instance_types),
            reuse=self.reuse,
            max_nodes=self.max_nodes,
            min_idle=self.min_idle,
            replacements=self.replacements,
            provision_timeout=self.provision_timeout,
            max_provision_timeout=self.max_provision_timeout,
            stall_after=self.stall_after,
            learn=self.learn,
            attach_timeout=self.attach_timeout,
            max_runtime=self.max_runtime,
            idle_timeout=self.idle_timeout,
            rescue_window=self.rescue_window,
            ec2=None if self.ec2 is None else self.ec2.spec(),
            runner=self.runner.spec(),
            cluster=self.cluster.spec() if self.cluster is not None else None,
        )


class ClassOut(Out):
    name: str
    cpu: int
    memory_mib: int

    @classmethod
    def of(cls, size: ResourceClass) -> Self:
        return cls(name=size.name, cpu=size.cpu, memory_mib=size.memory_mib)


class TemplateOut(Out):
    model_config = example(
        {
            "name": "ci",
            "revision": 1,
            "applied_at": EXAMPLE_TIME,
            "paused": False,
            "retired": False,
            **SPEC_EXAMPLE,
        }
    )

    name: str
    revision: int
    applied_at: datetime
    paused: bool
    retired: bool
    provider: str
    resource_class: str
    classes: list[ClassOut]
    runtime: Runtime
    boot_script: str
    usage: list[UsageClass]
    instance_types: list[str]
    reuse: Reuse
    max_nodes: int
    min_idle: int
    replacements: int
    provision_timeout: float | None
    max_provision_timeout: float | None
    stall_after: float | None
    learn: bool
    attach_timeout: float | None
    max_runtime: float
    idle_timeout: float
    rescue_window: float
    ec2: Ec2Out | None
    runner: RunnerOut
    cluster: ClusterSpecOut | None

    @classmethod
    def of(cls, template: Template, *, paused: bool) -> Self:
        spec = template.spec
        return cls(
            name=spec.name,
            revision=template.revision,
            applied_at=at(template.applied_at),
            paused=paused,
            retired=spec.retired,
            provider=spec.provider,
            resource_class=spec.resource_class,
            classes=[ClassOut.of(each) for each in spec.classes],
            runtime=spec.runtime,
            boot_script=spec.boot_script,
            usage=list(spec.usage),
            instance_types=list(spec.instance_types),
            reuse=spec.reuse,
            max_nodes=spec.max_nodes,
            min_idle=spec.min_idle,
            replacements=spec.replacements,
            provision_timeout=spec.provision_timeout,
            max_provision_timeout=spec.max_provision_timeout,
            stall_after=spec.stall_after,
            learn=spec.learn,
            attach_timeout=spec.attach_timeout,
            max_runtime=spec.max_runtime,
            idle_timeout=spec.idle_timeout,
            rescue_window=spec.rescue_window,
            ec2=None if spec.ec2 is None else Ec2Out.of(spec.ec2),
            runner=RunnerOut.of(spec.runner),
            cluster=ClusterSpecOut.of(spec.cluster) if spec.cluster is not None else None,
        )


class TemplatesOut(Out):
    items: list[TemplateOut]


class LimitsIn(In):
    model_config = example({"max_nodes": 100})

    max_nodes: int


class InstallationOut(Out):
    model_config = example({"id": "inst-1hx2k9q0c7m3t8v5e0", "max_nodes": 100, "version": "0.1.0"})

    id: str
    max_nodes: int
    version: str


class PausesOut(Out):
    """What is held back: named templates, or everything."""

    model_config = example({"all": False, "templates": ["ci"]})

    all: bool
    templates: list[str]
