"""Check GitHub for `muster doctor`: whether the credentials suffice for the templates and rules.

The check asks for a registration token in every place. The token is not used and expires by itself. It also
reads the workflow runs of every repository: these are the rights that matter. And it checks whether workflows
can reach the server.
"""

import asyncio
from collections.abc import Iterator
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from muster.config.values import LOOPBACK
from muster.domain.errors import MusterError, ProviderError, Throttled
from muster.integration import Check
from muster.integrations.github.runners import Scope
from muster.integrations.github.tables import TEMPLATE

if TYPE_CHECKING:
    from muster.config import Config
    from muster.integrations.github.registry import GitHubRegistry
    from muster.integrations.github.tables import GitHubConfig

SUBJECT = "github"


def checks(config: "Config") -> Iterator[Check]:
    wanted = any(each.runtime == "github" for each in config.templates)
    if not config.tables[SUBJECT].configured:
        if not wanted:
            return
        advice = "give [github] an app_id and a private_key_file, or a token_file: see docs/github.md"
        yield Check.failed(SUBJECT, "templates use runners, but [github] is not configured", advice)
        return
    yield from asyncio.run(_looked(config))
    yield _public_url(config)
    yield from _webhooks(config)
    serves = config.tables[SUBJECT].webhooks or any(TEMPLATE.of(each).scale_set for each in config.templates)
    if not config.tables["trust"] and not serves:
        advice = "add a [trust.NAME] for each repository whose workflows may sign in"
        words = "no workflow is trusted: all of them need a token of this server"
        yield Check.warning(SUBJECT, words, advice)


def _webhooks(config: "Config") -> Iterator[Check]:
    """Check that jobs which name labels can be served, if webhooks are set up."""
    given: GitHubConfig = config.tables[SUBJECT]
    runners = [TEMPLATE.of(each) for each in config.templates if each.runtime == "github"]
    labels = sorted({label for each in runners if not each.scale_set for label in each.labels})
    if not given.webhooks:
        return
    if not given.repositories:
        words = "webhooks are taken, but no repository may have machines"
        yield Check.warning(SUBJECT, words, 'name some in [github] repositories: "acme/*"')
    elif not labels:
        words = "webhooks are taken, but no template has labels for jobs"
        yield Check.warning(SUBJECT, words, 'give a template\'s runner table labels, such as "muster-linux"')
    else:
        names = f"{', '.join(given.repositories)} with the labels {', '.join(labels)}"
        yield Check.ok(SUBJECT, f"webhooks serve jobs of {names}")


def _public_url(config: "Config") -> Check:
    """Check that workflows can reach the server: they run on GitHub's machines, or on those of a local
    GitHub."""
    public = [each for each in config.server.public_url if urlsplit(each).hostname not in LOOPBACK]
    if public or urlsplit(config.tables[SUBJECT].url).hostname in LOOPBACK:
        return Check.ok("public_url", ", ".join(public) or "this machine's own, as its GitHub is here too")
    words = "server.public_url is not set, or this machine's own: workflows elsewhere can't reach the server"
    advice = "set server.public_url to the address that the Action's `server` names"
    return Check.warning("public_url", words, advice)


def places(config: "Config") -> dict[Scope, str]:
    """Return where runners are to be registered, with their group, as far as templates say."""
    runners = [TEMPLATE.of(spec) for spec in config.templates if spec.runtime == "github"]
    found = {Scope.named(each.scope): each.group for each in runners if each.scope}
    if not all(each.scope for each in runners) or not runners:
        found.update({Scope.named(name): "" for name in repositories(config)})
    return found


def repositories(config: "Config") -> list[str]:
    """Return the repositories whose workflow runs are to be read, as far as their names are known."""
    rules = [rule.repository for rule in config.tables["trust"]]
    named = [each for each in (*rules, *config.tables[SUBJECT].repositories) if "*" not in each]
    scopes = [Scope.named(runner.scope) for each in config.templates if (runner := TEMPLATE.of(each)).scope]
    return sorted({*named, *(str(scope) for scope in scopes if scope.repository)})


async def _looked(config: "Config") -> list[Check]:
    from muster.integrations.github.parts import github_of
    from muster.integrations.github.set_doctor import check_sets
    from muster.system import SystemClock

    try:
        parts = github_of(config.tables[SUBJECT], SystemClock(), installation_id="doctor")
    except MusterError as error:
        return [Check.failed(SUBJECT, str(error))]
    known = sorted(places(config).items())
    try:
        checks = [await _checked(parts.registry, scope, group) for scope, group in known]
        checks += [await _read(parts.registry, each) for each in repositories(config)]
        checks += await check_sets(config, parts.directory)
    finally:
        await parts.close()
    if not checks:
        patterns = ", ".join(rule.repository for rule in config.tables["trust"])
        words = f"no place to look at: {patterns or 'no runner.scope and no [trust] rule names one'}"
        checks.append(Check.warning(SUBJECT, words))
    return checks


async def _checked(registry: "GitHubRegistry", scope: Scope, group: str) -> Check:
    try:
        await registry.check(scope, group=group)
        await registry.registration_token(scope)
    except ProviderError as error:
        return _trouble(error, "check credentials and rights: docs/github.md lists them")
    return Check.ok(SUBJECT, f"runners can be registered for {scope}")


async def _read(workflows: "GitHubRegistry", repository: str) -> Check:
    """Check that workflow runs can be read. Without that, Muster can't see that a workflow ended or
    started again."""
    try:
        await workflows.active(repository)
    except ProviderError as error:
        return _trouble(error, "give the app or token `Actions: read`, to see when runs end and begin again")
    return Check.ok(SUBJECT, f"workflow runs of {repository} can be looked up")


def _trouble(error: ProviderError, advice: str) -> Check:
    if isinstance(error, Throttled):
        return Check.warning(SUBJECT, str(error), "look again later")
    return Check.failed(SUBJECT, str(error), advice)
