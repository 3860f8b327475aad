"""The runtime github: a node is attached when GitHub lists its runner online under the run's label.

Owns what a runner is called, which labels it has and how it is configured. The secret that registers it is
asked for when its node asks, goes into that node's kit, and is kept nowhere by us.
"""

import shlex
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources

from muster.agent.minifier import bare
from muster.domain.errors import InvalidRequest, Uncertain
from muster.domain.node import Node
from muster.domain.requests import ProvisionRequest
from muster.domain.template import Reuse, TemplateSpec
from muster.integrations.github.registry import GitHubRegistry
from muster.integrations.github.requests import JOB, SET_RUNNER, WORKFLOW, label
from muster.integrations.github.runners import RunnerSpec, Scope, runner_name, scope_of
from muster.integrations.github.set_directory import SetDirectory, spec_of
from muster.integrations.github.tables import TEMPLATE, check_sharing
from muster.ports.runtime import Kit, NodeRuntime

USER = "runner"
DOWNLOAD = "https://github.com/actions/runner/releases/download/v{version}/actions-runner-{os}-{arch}-{version}.tar.gz"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunnerPackage:
    """Where a node has the runner from: a path in its image, or a download that is checked."""

    path: str = ""
    version: str = ""
    sha256: tuple[str, ...] = ()
    """One per platform. What was downloaded must have one of them."""
    url: str = DOWNLOAD

    def __post_init__(self) -> None:
        if not self.path and not (self.version and self.sha256):
            rule = "must be given together with runner_sha256, or runner_path where images have the runner"
            raise InvalidRequest("runner_version", self.version, rule)


class GitHubRuntime(NodeRuntime):
    def __init__(
        self,
        registry: GitHubRegistry,
        package: RunnerPackage,
        *,
        installation_id: str,
        web_url: str,
        directory: SetDirectory,
        shared: Collection[str] = (),
    ) -> None:
        self._registry = registry
        self._directory = directory
        self._package = package
        self._installation = installation_id
        self._shared = shared
        self._web_url = web_url.rstrip("/")

    async def check(self, request: ProvisionRequest, spec: TemplateSpec) -> None:
        runner = TEMPLATE.of(spec)
        check_sharing(spec, runner)
        if SET_RUNNER.name in request.tables:
            _check_set(request, runner)
            await self._registry.check(self._scope(request, spec), group="")
            return
        labels_of(request, spec)
        await self._registry.check(self._scope(request, spec), group=runner.group)

    def boot_script(self, spec: TemplateSpec) -> str:
        parts = ["#!/bin/sh", "set -e"]
        if self._user(spec):
            # Before the operator's script, which may give it more: a group, a right to sudo.
            parts.append(
                f"[ $(id -u) != 0 ] || id -u {USER} >/dev/null 2>&1 || useradd -m -s /bin/bash {USER}"
            )
        if spec.boot_script.strip():
            parts += _embedded(spec.boot_script)
        given = {
            "path": self._package.path,
            "version": self._package.version,
            "url": self._package.url,
            "sha256": list(self._package.sha256),
        }
        parts.append(f"muster-agent step {shlex.quote(f'Actions runner {self._package.version}'.strip())}")
        parts += _document("python3 -", program("install.py", given))
        return "\n".join(parts) + "\n"

    async def kit(self, node: Node, request: ProvisionRequest, spec: TemplateSpec) -> Kit:
        scope, name, runner = self._scope(request, spec), self._name(node), TEMPLATE.of(spec)
        given: dict[str, object] = {"path": self._package.path, "user": self._user(spec)}
        if SET_RUNNER.name in request.tables:
            given["jit"] = await self._directory.just_in_time(spec_of(runner), name)
            return Kit(program=program("serve.py", given))
        labels = labels_of(request, spec)
        if JOB.name in request.tables:
            await self._directory.limit.take()  # jobs come in thousands, and GitHub counts each registration
        if serves_once(request, spec):
            given["jit"] = await self._registry.just_in_time(
                scope, name=name, labels=labels, group=runner.group
            )
        else:
            given["token"] = await self._registry.registration_token(scope)
            given["arguments"] = self._arguments(scope, name, labels, spec)
        return Kit(program=program("serve.py", given))

    def _arguments(self, scope: Scope, name: str, labels: tuple[str, ...], spec: TemplateSpec) -> list[str]:
        named = TEMPLATE.of(spec).group
        group = ["--runnergroup", named] if named else []
        return [
            *("--unattended", "--replace", "--disableupdate"),
            # Any job that asks for `self-hosted` alone would be served otherwise.
            "--no-default-labels",
            *("--url", f"{self._web_url}/{scope}"),
            *("--name", name),
            *("--labels", ",".join(labels)),
            *("--work", "_work"),
            *group,
        ]

    async def attached(
        self, node: Node, request: ProvisionRequest, spec: TemplateSpec, *, ended: bool = False
    ) -> bool:
        name = self._name(node)
        if SET_RUNNER.name in request.tables:
            return await self._set_attached(name, spec, ended=ended)
        wanted = labels_of(request, spec)[0].lower()
        for runner in await self._registry.runners(self._scope(request, spec)):
            if runner.name == name:
                return runner.online and wanted in runner.labels
        # GitHub drops an ephemeral runner after its one job, which may end before Muster saw it online.
        return ended and serves_once(request, spec)

    async def _set_attached(self, name: str, spec: TemplateSpec, *, ended: bool) -> bool:
        """Tell by its name: GitHub lists runners of scale sets without labels. The Actions service is asked
        first, because its answers don't count against the limit of the REST API."""
        wanted = spec_of(TEMPLATE.of(spec))
        found = await self._directory.runner(wanted, name)
        if found is None:
            return ended  # gone after its one job, or not there yet
        if found.online is not None:
            return found.online
        listed = await self._registry.find(wanted.scope, name)
        return listed is not None and listed.online

    async def _set_withdraw(self, name: str, spec: TemplateSpec) -> None:
        wanted = spec_of(TEMPLATE.of(spec))
        found = await self._directory.runner(wanted, name)
        if found is not None:
            await self._directory.sets.remove_runner(wanted.scope, found.id)

    async def withdraw(self, node: Node, request: ProvisionRequest, spec: TemplateSpec) -> None:
        if SET_RUNNER.name in request.tables:
            await self._set_withdraw(self._name(node), spec)
            return
        scope = self._scope(request, spec)
        runner = await self._registry.find(scope, self._name(node))
        if runner is not None and not await self._registry.remove(scope, runner.id):
            raise Uncertain(f"cannot remove runner {runner.name}: GitHub takes it for busy")

    def _user(self, spec: TemplateSpec) -> str:
        """Return the user of its runners. Empty: the agent's own user, where nodes share a machine."""
        return "" if spec.provider in self._shared else USER

    def _name(self, node: Node) -> str:
        if node.assignment_id is None:
            raise InvalidRequest("assignment_id", None, f"node {node.id} has no assignment")
        return runner_name(self._installation, node.assignment_id)

    def _scope(self, request: ProvisionRequest, spec: TemplateSpec) -> Scope:
        found = scope_of(TEMPLATE.of(spec), WORKFLOW.of(request) or JOB.of(request))
        if found is None:
            rule = (
                "must come with a workflow, or its template with a runner.scope: where is the runner to be?"
            )
            raise InvalidRequest("run", request.run, rule)
        return found


def _check_set(request: ProvisionRequest, runner: RunnerSpec) -> None:
    wanted = SET_RUNNER.of(request)
    if wanted is not None and wanted.set != runner.scale_set:
        rule = f"must be {runner.scale_set or 'left out'}, as template {request.template} says"
        raise InvalidRequest("scale_set.set", wanted.set, rule)


def ephemeral(spec: TemplateSpec) -> bool:
    """Return whether the template's runners serve one job each."""
    said = TEMPLATE.of(spec).ephemeral
    return spec.reuse is Reuse.NEVER if said is None else said


def serves_once(request: ProvisionRequest, spec: TemplateSpec) -> bool:
    """Return whether a runner serves one job: as its template says, and always for a job that waits."""
    return JOB.name in request.tables or ephemeral(spec)


def labels_of(request: ProvisionRequest, spec: TemplateSpec) -> tuple[str, ...]:
    """Return the labels, the run's own first. Without a workflow, the run is its label."""
    workflow, job = WORKFLOW.of(request), JOB.of(request)
    if job is not None:
        own = job.labels
    else:
        own = (workflow.named if workflow is not None else label("run", request.run),)
    named: dict[str, str] = {}
    for each in (*own, *TEMPLATE.of(spec).labels):
        named.setdefault(each.lower(), each)  # to GitHub, case makes no difference
    return tuple(named.values())


def program(name: str, given: Mapping[str, object]) -> str:
    """Return a node's program with its values, as one text for an interpreter's standard input."""
    return f"{_code(name)}\nmain({dict(given)!r})\n"


@cache
def _code(name: str) -> str:
    """Return a node's program without comments. Parsed once: each hand-over of a runner wants it."""
    text = resources.files("muster.integrations.github").joinpath("node", name).read_text(encoding="utf-8")
    return bare(text)


def _embedded(script: str) -> list[str]:
    """Return the operator's script as a file of its own: it may be in any language, with its own exit
    code."""
    place = '"$MUSTER_HOME/boot-script"'
    runs = place if script.startswith("#!") else f"/bin/sh {place}"
    return [*_document(f"cat > {place}", script), f"chmod 700 {place}", runs]


def _document(command: str, text: str) -> list[str]:
    end = "MUSTER_END"
    while end in text:
        end += "_"
    return [f"{command} <<'{end}'", text.rstrip("\n"), end]
