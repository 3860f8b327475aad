"""Compose the adapter: how to speak to GitHub, and everything that follows from it."""

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from muster.config.values import read_secret
from muster.integration import Parts, Site
from muster.integrations.github.actions_service import ActionsService
from muster.integrations.github.api import GitHubApi, new_http
from muster.integrations.github.credentials import AppCredentials, Credentials, PersonalToken
from muster.integrations.github.federation import GitHubFederation
from muster.integrations.github.job_intake import JobIntake
from muster.integrations.github.job_keeper import JobKeeper
from muster.integrations.github.job_lookup import JobLookup
from muster.integrations.github.leftovers import Leftovers
from muster.integrations.github.provisioned_scopes import ProvisionedScopes
from muster.integrations.github.registration_limit import RegistrationLimit
from muster.integrations.github.registry import GitHubRegistry
from muster.integrations.github.reruns import Reruns
from muster.integrations.github.runtime import DOWNLOAD, GitHubRuntime, RunnerPackage
from muster.integrations.github.scale_sets import ScaleSets
from muster.integrations.github.set_directory import SetDirectory
from muster.integrations.github.set_listener import SetListeners
from muster.integrations.github.tables import GitHubConfig
from muster.integrations.github.trust import Trust
from muster.integrations.github.webhooks import GitHubHook
from muster.integrations.github.workflows import WorkflowKeeper
from muster.ports.clock import Clock
from muster.ports.duties import Duty, DutyContext, Hook
from muster.ports.wakeups import JOBS

PUBLIC = "https://github.com"


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """The identity at which GitHub."""

    url: str = PUBLIC
    api_url: str | None = None
    issuer: str | None = None
    token: str = ""
    token_file: Path | None = None
    app_id: str = ""
    private_key_file: Path | None = None

    @property
    def api(self) -> str:
        return self.api_url or ("https://api.github.com" if self.url == PUBLIC else f"{self.url}/api/v3")

    @property
    def signs(self) -> str:
        """Return the issuer that signs for jobs."""
        public = "https://token.actions.githubusercontent.com"
        return self.issuer or (public if self.url == PUBLIC else f"{self.url}/_services/token")

    def credentials(self, http: httpx.AsyncClient, clock: Clock) -> Credentials:
        """Return the credentials. Raises InvalidRequest for secrets that can't be read or used. Never
        shows one."""
        if self.app_id and self.private_key_file is not None:
            key = read_secret("private_key_file", self.private_key_file)
            return AppCredentials(http, clock, api_url=self.api, app_id=self.app_id, private_key=key)
        if self.token_file is not None:
            return PersonalToken(read_secret("token_file", self.token_file))
        return PersonalToken(self.token)


class GitHub:
    """Everything behind the ports that GitHub serves, over one client."""

    def __init__(
        self,
        account: Account,
        package: RunnerPackage,
        clock: Clock,
        *,
        installation_id: str,
        shared: Collection[str] = (),
        runners_per_minute: int = 180,
        transport: httpx.AsyncBaseTransport | None = None,
        watched: Callable[[GitHubRegistry], GitHubRegistry] = lambda registry: registry,
    ) -> None:
        self._http = new_http(transport)
        credentials = account.credentials(self._http, clock)
        self.api = GitHubApi(self._http, credentials, clock, api_url=account.api)
        self.registry = watched(GitHubRegistry(self.api, clock))
        service = ActionsService(self._http, self.registry, clock, api_url=account.api, web_url=account.url)
        limit = RegistrationLimit(clock, runners_per_minute)
        self.directory = SetDirectory(ScaleSets(service), self.registry, clock, limit)
        self.runtime = GitHubRuntime(
            self.registry,
            package,
            installation_id=installation_id,
            web_url=account.url,
            directory=self.directory,
            shared=shared,
        )

    def duties(self, given: DutyContext, jobs: "JobServing | None" = None) -> tuple[Duty, ...]:
        """Return the duties of a replica, which shares the limit on registrations with the others."""
        self.directory.limit.divide(given.store, given.owner)
        return duties(given, self.registry, jobs)

    async def close(self) -> None:
        await self._http.aclose()


def federation(
    account: Account, clock: Clock, *, audiences: Sequence[str], rules: Sequence[Trust]
) -> GitHubFederation:
    return GitHubFederation(new_http(), clock, issuer=account.signs, audiences=audiences, rules=rules)


def account_of(given: GitHubConfig) -> Account:
    return Account(
        url=given.url,
        api_url=given.api_url,
        issuer=given.issuer,
        token=given.token,
        token_file=given.token_file,
        app_id=given.app_id,
        private_key_file=given.private_key_file,
    )


def github_of(
    given: GitHubConfig,
    clock: Clock,
    *,
    installation_id: str,
    shared: Collection[str] = (),
    watched: Callable[[GitHubRegistry], GitHubRegistry] = lambda registry: registry,
) -> GitHub:
    """Compose what GitHub serves. Raises InvalidRequest for settings that can't be used."""
    package = RunnerPackage(
        path=given.runner_path,
        version=given.runner_version,
        sha256=given.runner_sha256,
        url=given.runner_url or DOWNLOAD,
    )
    return GitHub(
        account_of(given),
        package,
        clock,
        installation_id=installation_id,
        shared=shared,
        runners_per_minute=given.runners_per_minute,
        watched=watched,
    )


def duties(
    given: DutyContext, registry: GitHubRegistry, jobs: "JobServing | None" = None
) -> tuple[Duty, ...]:
    issued = ProvisionedScopes(given)
    return (
        *(() if jobs is None else jobs.duties(given)),
        Duty(name="github_reruns", every=30.0, work=Reruns(given, registry)),
        Duty(name="leftovers", every=30.0, work=Leftovers(given, registry, issued)),
        Duty(name="workflows", every=20.0, work=WorkflowKeeper(given, registry, issued)),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class JobServing:
    """What serves jobs that name labels: a hook that hears of them, and the duties that keep them served."""

    secret: str
    repositories: Sequence[str]
    installation_id: str
    registry: GitHubRegistry

    def hooks(self, given: DutyContext) -> Mapping[str, Hook]:
        hook = GitHubHook(
            self._intake(given), given.clock, secret=self.secret, installation_id=self.installation_id
        )
        return {"github": hook}

    def duties(self, given: DutyContext) -> tuple[Duty, ...]:
        intake = self._intake(given)
        lookup = JobLookup(
            given,
            self.registry,
            intake,
            repositories=self.repositories,
            installation_id=self.installation_id,
        )
        keeper = JobKeeper(given, self.registry, intake, lookup, installation_id=self.installation_id)
        return (
            Duty(name="github_jobs", every=15.0, work=keeper, woken_by=JOBS),
            Duty(name="github_lookup", every=60.0, work=lookup),
        )

    def _intake(self, given: DutyContext) -> JobIntake:
        return JobIntake(given, repositories=self.repositories)


def _job_serving(config: GitHubConfig, site: Site, registry: GitHubRegistry) -> JobServing | None:
    """Return what serves jobs. None: webhooks aren't set up. Raises InvalidRequest for an unusable secret."""
    if not config.webhooks:
        return None
    named = config.webhook_secret_file
    return JobServing(
        secret=config.webhook_secret if named is None else read_secret("webhook_secret_file", named),
        repositories=config.repositories,
        installation_id=site.installation_id,
        registry=registry,
    )


async def connect(site: Site) -> Parts:
    given: GitHubConfig = site.tables["github"]
    found: dict[str, Any] = {}
    async with AsyncExitStack() as opened:
        if given.configured:
            github = github_of(
                given,
                site.clock,
                installation_id=site.installation_id,
                shared=site.shared,
                watched=lambda registry: site.watched("github", registry),
            )
            opened.push_async_callback(github.close)
            jobs = _job_serving(given, site, github.registry)
            found |= {
                "runtimes": {"github": github.runtime},
                "duties": lambda given: github.duties(given, jobs),
                "standing": lambda given: [SetListeners(given, github.directory)],
            }
            if jobs is not None:
                found["hooks"] = jobs.hooks
        if site.tables["trust"]:
            own = tuple(each.rstrip("/") for each in site.urls)
            audiences = (given.audience,) if given.audience else own
            signed = federation(
                account_of(given), site.clock, audiences=audiences, rules=site.tables["trust"]
            )
            opened.push_async_callback(signed.close)
            found["federation"] = signed
        return Parts(**found, close=opened.pop_all().aclose)
