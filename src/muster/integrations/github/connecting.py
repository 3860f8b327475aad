"""The parts of this adapter, put together for a server."""

from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import Any

from muster.integration import Parts, Site
from muster.integrations.github.assembly import Account, GitHub, federation
from muster.integrations.github.issued import Issued
from muster.integrations.github.leftovers import Leftovers
from muster.integrations.github.registry import GitHubRegistry
from muster.integrations.github.runtime import DOWNLOAD, RunnerPackage
from muster.integrations.github.tables import GitHubConfig
from muster.integrations.github.workflows import WorkflowKeeper
from muster.ports.clock import Clock
from muster.ports.duties import Duty, DutyContext


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
    watched: Callable[[GitHubRegistry], GitHubRegistry] = lambda registry: registry,
) -> GitHub:
    """Raises InvalidRequest for what can't be used."""
    package = RunnerPackage(
        path=given.runner_path,
        version=given.runner_version,
        sha256=given.runner_sha256,
        url=given.runner_url or DOWNLOAD,
    )
    return GitHub(account_of(given), package, clock, installation_id=installation_id, watched=watched)


def duties(given: DutyContext, registry: GitHubRegistry) -> tuple[Duty, ...]:
    issued = Issued(given)
    return (
        Duty(name="leftovers", every=30.0, work=Leftovers(given, registry, issued)),
        Duty(name="workflows", every=20.0, work=WorkflowKeeper(given, registry, issued)),
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
                watched=lambda registry: site.watched("github", registry),
            )
            opened.push_async_callback(github.close)
            found |= {
                "runtimes": {"github": github.runtime},
                "duties": lambda given: duties(given, github.registry),
            }
        if site.tables["trust"]:
            own = tuple(each.rstrip("/") for each in site.urls)
            audiences = (given.audience,) if given.audience else own
            signed = federation(account_of(given), site.clock, audiences=audiences)
            opened.push_async_callback(signed.close)
            found["federation"] = signed
        return Parts(**found, close=opened.pop_all().aclose)
