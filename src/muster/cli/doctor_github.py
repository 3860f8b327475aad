"""`muster doctor` on GitHub: whether the credentials are good for what the templates and rules want.

Asks for a registration token in every place, which nobody uses and which ends by itself: that is the right
that matters.
"""

import asyncio
from collections.abc import Iterator
from typing import TYPE_CHECKING

from muster.cli.doctor import Check, Level
from muster.domain.errors import MusterError, ProviderError, Throttled
from muster.domain.template import Runtime
from muster.domain.workflow import Scope

if TYPE_CHECKING:
    from muster.config import Config
    from muster.ports.runners import RunnerRegistry

SUBJECT = "github"


def github(config: "Config") -> Iterator[Check]:
    if not config.github.configured:
        advice = "give [github] an app_id and a private_key_file, or a token_file: see docs/github.md"
        words = "templates want runners, but nothing is said about GitHub"
        yield Check(subject=SUBJECT, level=Level.FAILED, words=words, advice=advice)
        return
    yield from asyncio.run(_looked(config))
    if not config.trust:
        advice = "add a [trust.NAME] for repositories whose workflows may sign in by themselves"
        words = "no workflow is trusted: all of them need a token of this server"
        yield Check(subject=SUBJECT, level=Level.WARNING, words=words, advice=advice)


def places(config: "Config") -> tuple[dict[Scope, str], list[str]]:
    """Where runners are to be registered, with their group; and what can't be known before somebody asks."""
    found: dict[Scope, str] = {}
    for spec in config.templates:
        if spec.runtime is Runtime.GITHUB and spec.runner.scope:
            found[Scope.named(spec.runner.scope)] = spec.runner.group
    patterns = [rule.repository for rule in config.trust]
    for name in patterns:
        if "*" not in name:
            found.setdefault(Scope.named(name), "")
    return found, [name for name in patterns if "*" in name]


async def _looked(config: "Config") -> list[Check]:
    from muster.serve import github_of
    from muster.system import SystemClock

    try:
        parts = github_of(config, SystemClock(), installation_id="doctor")
    except MusterError as error:
        return [Check(subject=SUBJECT, level=Level.FAILED, words=str(error))]
    if parts is None:
        return []
    known, patterns = places(config)
    try:
        checks = [await _checked(parts.registry, scope, group) for scope, group in sorted(known.items())]
    finally:
        await parts.close()
    if not checks:
        words = (
            f"no place to look at: {', '.join(patterns) or 'no runner.scope and no [trust] rule names one'}"
        )
        checks.append(Check(subject=SUBJECT, level=Level.WARNING, words=words))
    return checks


async def _checked(registry: "RunnerRegistry", scope: Scope, group: str) -> Check:
    try:
        await registry.check(scope, group=group)
        await registry.registration_token(scope)
    except Throttled as error:
        return Check(subject=SUBJECT, level=Level.WARNING, words=str(error), advice="look again later")
    except ProviderError as error:
        advice = "check credentials and rights: docs/github.md says which ones are needed"
        return Check(subject=SUBJECT, level=Level.FAILED, words=str(error), advice=advice)
    return Check(subject=SUBJECT, level=Level.OK, words=f"runners can be registered for {scope}")
