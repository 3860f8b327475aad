"""Templates: an operator's named recipe, and the sizes it can ask for.

Owns validation of a template's content. A stored template carries a revision; "old" means lower than
the stored current revision.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from muster.domain import checks
from muster.domain.cluster_spec import ClusterSpec
from muster.domain.ec2 import EC2, Ec2Spec
from muster.domain.errors import InvalidRequest
from muster.domain.workflow import RunnerSpec, runner_spec

CPU_MOST = 1024
MEMORY_LEAST = 64
MEMORY_MOST = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceClass:
    name: str
    cpu: int
    memory_mib: int

    def __post_init__(self) -> None:
        checks.whole("cpu", self.cpu, least=1, most=CPU_MOST)
        checks.whole("memory_mib", self.memory_mib, least=MEMORY_LEAST, most=MEMORY_MOST)


def _classes() -> dict[str, ResourceClass]:
    sizes = {
        "small": (1, 1024),
        "large": (2, 4096),
        "xlarge": (4, 8192),
        "2xlarge": (8, 16384),
        "4xlarge": (16, 32768),
        "8xlarge": (32, 65536),
        "12xlarge": (48, 98304),
        "16xlarge": (64, 131072),
    }
    return {name: ResourceClass(name=name, cpu=cpu, memory_mib=mib) for name, (cpu, mib) in sizes.items()}


RESOURCE_CLASSES: Mapping[str, ResourceClass] = _classes()


class UsageClass(StrEnum):
    ON_DEMAND = "on-demand"
    SPOT = "spot"


class Reuse(StrEnum):
    NEVER = "never"
    SAME_OWNER = "same-owner"
    ALWAYS = "always"


class Runtime(StrEnum):
    EXEC = "exec"
    GITHUB = "github"
    SERVICE = "service"

    @property
    def kitted(self) -> bool:
        """Whether attaching takes a kit, and another's word than the node's own."""
        return self is Runtime.GITHUB


RETIRED = "was retired: choose another, or bring {} back with `muster apply`"
BOOT_LEAST = 1.0
STALL_LEAST = 15.0
LOCAL = "process"
"""Whose machines are processes of this one."""
EXTERNAL = "external"
"""The provider of apps that enrol themselves. It makes no machines."""
AKS = "aks"
"""The provider of whole clusters. It makes no nodes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TemplateSpec:
    """What an operator writes. Two equal specs are the same revision."""

    name: str
    provider: str
    resource_class: str = "large"
    classes: tuple[ResourceClass, ...] = ()
    """Sizes that are others here than usual, by name and in their order."""
    runtime: Runtime = Runtime.EXEC
    boot_script: str = ""
    usage: tuple[UsageClass, ...] = (UsageClass.ON_DEMAND,)
    """In order of preference: `spot, then on-demand` falls back when there is no capacity."""
    instance_types: tuple[str, ...] = ("*",)
    reuse: Reuse = Reuse.SAME_OWNER
    max_nodes: int = 20
    min_idle: int = 0
    replacements: int = 0
    """How many created nodes of one provision may fail and be replaced."""
    provision_timeout: float | None = None
    max_provision_timeout: float | None = None
    stall_after: float | None = None
    learn: bool = True
    """Whether the template's own boots may lengthen its deadline."""
    attach_timeout: float | None = None
    max_runtime: float = 1800.0
    idle_timeout: float = 360.0
    rescue_window: float = 120.0
    ec2: Ec2Spec | None = None
    """What the provider `ec2` needs to know, and no other."""
    runner: RunnerSpec = field(default_factory=RunnerSpec)
    """For the runtime github."""
    cluster: ClusterSpec | None = None
    """What a cluster is made of: for the provider of clusters, and only there."""
    retired: bool = False
    """Nobody gets nodes of it any more. Its warm ones go, being of an older revision; what runs goes on."""
    outfit: str = ""
    """What the server puts on each node beside all this (its agent, addresses, a runner), as a hash. Not the
    operator's to write: nodes with another outfit are of another revision."""

    def __post_init__(self) -> None:
        checks.name("name", self.name)
        checks.name("provider", self.provider)
        checks.known("resource_class", self.resource_class, RESOURCE_CLASSES)
        self._check_classes()
        checks.word("runtime", self.runtime, Runtime)
        checks.script("boot_script", self.boot_script)
        checks.words("usage", self.usage, UsageClass)
        checks.word("reuse", self.reuse, Reuse)
        checks.patterns("instance_types", self.instance_types)
        checks.whole("max_nodes", self.max_nodes, least=0, most=checks.MACHINES_MAX)
        checks.whole("min_idle", self.min_idle, least=0, most=checks.COUNT_MAX)
        checks.whole("replacements", self.replacements, least=0, most=checks.COUNT_MAX)
        checks.flag("learn", self.learn)
        checks.flag("retired", self.retired)
        if self.outfit != "":
            checks.text("outfit", self.outfit)
        self._check_times()
        if self.min_idle > self.max_nodes:
            raise InvalidRequest("min_idle", self.min_idle, f"must not exceed max_nodes ({self.max_nodes})")
        if self.enrols and self.runtime is not Runtime.SERVICE:
            rule = f"must be {Runtime.SERVICE} for the provider {EXTERNAL}: its nodes are apps"
            raise InvalidRequest("runtime", self.runtime, rule)
        if self.min_idle and self.retired:
            raise InvalidRequest(
                "min_idle", self.min_idle, "must be 0: a retired template keeps nothing warm"
            )
        if self.min_idle and self.runtime is Runtime.SERVICE:
            raise InvalidRequest("min_idle", self.min_idle, "must be 0 for services: they are never idle")
        if (self.ec2 is not None) is not (self.provider == EC2):
            rule = f"must be there for the provider {EC2}, and for no other: it says which image and subnets"
            raise InvalidRequest("ec2", self.ec2, rule)
        self._check_runner()
        self._check_cluster()

    def check_in_use(self) -> None:
        """Raises InvalidRequest for one that nobody gets anything of any more."""
        if self.retired:
            raise InvalidRequest("template", self.name, RETIRED.format(self.name))

    def size(self, resource_class: str) -> ResourceClass:
        own = {each.name: each for each in self.classes}
        return own.get(resource_class) or RESOURCE_CLASSES[resource_class]

    def _check_classes(self) -> None:
        given: object = self.classes
        if not isinstance(given, tuple) or not all(isinstance(each, ResourceClass) for each in given):
            raise InvalidRequest("classes", given, "must be resource classes")
        names = [checks.known("classes", each.name, RESOURCE_CLASSES) for each in self.classes]
        if names != sorted(set(names)):
            raise InvalidRequest("classes", names, "must name each class once, in order")

    def _check_cluster(self) -> None:
        if self.clusters and not isinstance(self.cluster, ClusterSpec):
            rule = f"must say what the clusters are made of: the provider {AKS} makes nothing else"
            raise InvalidRequest("cluster", self.cluster, rule)
        if not self.clusters and self.cluster is not None:
            raise InvalidRequest("cluster", "…", f"must be left out: only the provider {AKS} makes clusters")
        if self.clusters and (self.min_idle or self.boot_script):
            field = "min_idle" if self.min_idle else "boot_script"
            rule = f"must be left out for the provider {AKS}: it makes clusters, not nodes"
            raise InvalidRequest(field, getattr(self, field), rule)

    def _check_times(self) -> None:
        for name in ("provision_timeout", "max_provision_timeout", "stall_after", "attach_timeout"):
            value = getattr(self, name)
            if value is not None:
                checks.seconds(name, value)
        if self.provision_timeout is not None and self.provision_timeout < BOOT_LEAST:
            rule = f"must be at least {BOOT_LEAST:g} seconds: nothing boots faster"
            raise InvalidRequest("provision_timeout", self.provision_timeout, rule)
        if self.stall_after is not None and self.stall_after < STALL_LEAST:
            rule = f"must be at least {STALL_LEAST:g} seconds: a sign of advance comes with a heartbeat"
            raise InvalidRequest("stall_after", self.stall_after, rule)
        checks.seconds("max_runtime", self.max_runtime)
        checks.seconds("idle_timeout", self.idle_timeout)
        checks.seconds("rescue_window", self.rescue_window, zero=True)
        ceiling, deadline = self.max_provision_timeout, self.provision_timeout
        if ceiling is not None and deadline is not None and ceiling < deadline:
            rule = f"must not be below provision_timeout ({deadline:g})"
            raise InvalidRequest("max_provision_timeout", ceiling, rule)

    def _check_runner(self) -> None:
        runner_spec("runner", self.runner)
        if self.runtime is not Runtime.GITHUB and self.runner != RunnerSpec():
            rule = f"must be left out: only nodes of the runtime {Runtime.GITHUB} are runners"
            raise InvalidRequest("runner", self.runner, rule)
        if self.runner.ephemeral and self.reuse is not Reuse.NEVER:
            rule = f"must be {Reuse.NEVER}: the machine of an ephemeral runner serves one job and no other"
            raise InvalidRequest("reuse", self.reuse, rule)

    def check_sharing(self) -> None:
        """Whose jobs may meet on one machine must have been said. Asked of templates that are new, and of old
        ones before they are used. Raises InvalidRequest."""
        scope, group = self.runner.scope, self.runner.group
        if group and not scope:
            rule = (
                f"must be left out of template {self.name}, or come with a runner.scope that names its "
                "organisation: repositories have no groups"
            )
            raise InvalidRequest("runner.group", group, rule)
        if scope and "/" not in scope and not group and self.reuse is not Reuse.NEVER:
            rule = (
                f"must be set for template {self.name}: its runners serve all of {scope} and its nodes are "
                "used again; name the group of repositories that may have their jobs there, or set "
                'reuse = "never"'
            )
            raise InvalidRequest("runner.group", group, rule)

    @property
    def ephemeral(self) -> bool:
        """Whether its runners serve one job each."""
        if self.runner.ephemeral is None:
            return self.reuse is Reuse.NEVER
        return self.runner.ephemeral

    @property
    def pools(self) -> bool:
        """Whether a node of this template may serve again after a run."""
        return self.reuse is not Reuse.NEVER and not self.enrols

    @property
    def enrols(self) -> bool:
        """Whether its nodes are apps that enrol themselves: nobody makes them, and nobody is given them."""
        return self.provider == EXTERNAL

    @property
    def clusters(self) -> bool:
        """Whether it is a recipe for clusters: nobody is given nodes of it."""
        return self.provider == AKS


@dataclass(frozen=True, slots=True, kw_only=True)
class Template:
    spec: TemplateSpec
    revision: int
    applied_at: float

    @property
    def name(self) -> str:
        return self.spec.name
