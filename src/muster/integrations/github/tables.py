"""The settings [github] and [trust.NAME], and the table [templates.NAME.runner]."""

import re
from dataclasses import dataclass, field
from pathlib import Path

from muster.config import values
from muster.config.tables import Table, TemplateTable
from muster.domain import checks
from muster.domain.access import Role
from muster.domain.errors import InvalidRequest
from muster.domain.template import Reuse, TemplateSpec
from muster.integrations.github.requests import repository
from muster.integrations.github.runners import RERUNS_MOST, RunnerSpec, Scope
from muster.integrations.github.trust import REPOSITORY_ID_MOST, Trust

_SHA256 = re.compile(r"[0-9a-fA-F]{64}")


@dataclass(frozen=True, slots=True, kw_only=True)
class GitHubConfig:
    """How to speak to GitHub. Without credentials there is no runtime `github`."""

    url: str = "https://github.com"
    """Of GitHub Enterprise Server: where people see it."""
    api_url: str | None = None
    """None: what belongs to `url`."""
    token: str = field(default="", repr=False)
    """A personal access token; only from the environment. In a file: see `token_file`."""
    token_file: Path | None = None
    app_id: str = ""
    private_key_file: Path | None = None
    runner_path: str = ""
    """Where nodes' images have the runner; empty: nodes fetch it."""
    runner_version: str = ""
    runner_sha256: tuple[str, ...] = ()
    """Of the packages of that version, one per platform that nodes have."""
    runner_url: str | None = None
    """A mirror, with {version}, {os} and {arch} in it."""
    webhook_secret: str = field(default="", repr=False)
    """With which GitHub signs webhooks; only from the environment. In a file: see `webhook_secret_file`."""
    webhook_secret_file: Path | None = None
    repositories: tuple[str, ...] = ()
    """Repositories whose queued jobs get runners: `acme/shop`, `acme/*`. Empty: none."""
    issuer: str | None = None
    """Of the tokens with which workflows sign in; None: what belongs to `url`."""
    runners_per_minute: int = 180
    """Runners of scale sets and for jobs that all replicas together register in a minute, at most. GitHub
    refuses more than 1,500 in five minutes for one organisation; the rest is for others."""
    audience: str = ""
    """What these tokens must be meant for; empty: one of the server's own addresses, so that a token for
    another server is worth nothing here."""

    @property
    def configured(self) -> bool:
        return bool(self.token or self.token_file or self.app_id)

    @property
    def webhooks(self) -> bool:
        return bool(self.webhook_secret or self.webhook_secret_file)


def _hashes(name: str, value: object) -> object:
    rule = "must be a SHA-256 in hexadecimal, or a list of them"
    found = value if isinstance(value, list) else [value]
    for each in found:
        checks.matching(name, each, _SHA256, rule)
    return tuple(str(each).lower() for each in found)


def _package_url(name: str, value: object) -> object:
    text = checks.text(name, value, longest=2048)
    if "{version}" not in text or not text.startswith(("http://", "https://")):
        raise InvalidRequest(name, value, "must be a URL with {version} in it, and {os} and {arch}")
    return text


def _repositories(name: str, value: object) -> object:
    if not isinstance(value, list):
        raise InvalidRequest(name, value, 'must be a list of repositories: ["acme/shop", "acme/*"]')
    for each in value:
        owner, _, rest = str(each).partition("/")
        repository(name, f"{owner}/any" if rest == "*" else each)
    return tuple(value)


def _together(config: GitHubConfig) -> None:
    if bool(config.app_id) is not (config.private_key_file is not None):
        given = "app_id" if config.app_id else "private_key_file"
        other = "private_key_file" if config.app_id else "app_id"
        raise InvalidRequest(given, "…", f"and {other} must be given together")
    if config.webhooks and not config.configured:
        rule = "must come with a token or an app: runners for jobs are registered with it"
        raise InvalidRequest("webhook_secret_file", "…", rule)
    if config.webhook_secret and config.webhook_secret_file:
        raise InvalidRequest(
            "webhook_secret_file", "…", "and MUSTER_GITHUB_WEBHOOK_SECRET exclude each other"
        )
    if config.app_id and (config.token or config.token_file):
        rule = "and a token exclude each other: give GitHub one identity"
        raise InvalidRequest("app_id", config.app_id, rule)


SETTINGS = Table(
    kind=GitHubConfig,
    keys={
        "url": values.url,
        "api_url": values.url,
        "token": values.secret,
        "app_id": values.text_or_number,
        "runner_sha256": _hashes,
        "runner_url": _package_url,
        "runners_per_minute": values.whole(1, 100_000),
        "webhook_secret": values.secret,
        "repositories": _repositories,
        "issuer": values.url,
    },
    secret=("token", "webhook_secret"),
    private=("token_file", "private_key_file", "webhook_secret_file"),
    check=_together,
)


def _rule(*, repository: str = "", **content: object) -> Trust:
    return Trust(repository=repository, **content)  # type: ignore[arg-type]  # each key was checked


TRUST = Table(
    kind=_rule,
    keys={
        "repository": values.text,
        "repository_id": values.whole(1, REPOSITORY_ID_MOST),
        "refs": values.texts,
        "workflows": values.texts,
        "events": values.texts,
        "environment": values.text,
        "role": values.one_of(Role),
        "templates": values.texts,
        "resource_classes": values.texts,
        "instance_types": values.texts,
    },
    named=True,
)


def _fits(spec: TemplateSpec, runner: RunnerSpec) -> None:
    """Check how the table and the rest of the template go together. Raises InvalidRequest."""
    _ephemeral_alone(spec, runner)
    if runner.min_idle > spec.max_nodes:
        rule = f"must not exceed max_nodes of the template ({spec.max_nodes})"
        raise InvalidRequest("runner.min_idle", runner.min_idle, rule)


def _ephemeral_alone(spec: TemplateSpec, runner: RunnerSpec) -> None:
    if runner.ephemeral and spec.reuse is not Reuse.NEVER:
        rule = f"must be {Reuse.NEVER}: the machine of an ephemeral runner serves one job and no other"
        raise InvalidRequest("reuse", spec.reuse, rule)


def check_sharing(spec: TemplateSpec, runner: RunnerSpec) -> None:
    """Check that the template says whose jobs may share a machine. Raises InvalidRequest.

    New templates are checked, and old ones before they are used.
    """
    scope, group = runner.scope, runner.group
    if group and not scope:
        rule = (
            f"must be left out of template {spec.name}, or come with a runner.scope that names its "
            "organisation: repositories have no groups"
        )
        raise InvalidRequest("runner.group", group, rule)
    if scope and not Scope.named(scope).repository and not group and spec.reuse is not Reuse.NEVER:
        rule = (
            f"must be set for template {spec.name}: its runners serve all of {scope} and its nodes are "
            "used again; name the group of repositories that may have their jobs there, or set "
            'reuse = "never"'
        )
        raise InvalidRequest("runner.group", group, rule)


TEMPLATE = TemplateTable(
    name="runner",
    kind=RunnerSpec,
    keys={
        "max_runners": values.whole(0, checks.MACHINES_MAX),
        "min_idle": values.whole(0, checks.COUNT_MAX),
        "rerun_interrupted": values.whole(0, RERUNS_MOST),
    },
    runtime="github",
    always=True,
    sparse=("scale_set", "max_runners", "min_idle", "sizes", "rerun_interrupted"),
    rule=_fits,
    warning=check_sharing,
)
