"""What `muster doctor` says about container engines: the settings first, then what each engine answers."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from muster.integration import Check, Machine

if TYPE_CHECKING:
    from muster.domain.template import TemplateSpec
    from muster.integrations.docker.tables import EngineConfig


def checks(machine: Machine) -> Iterator[Check]:
    import os

    from muster.config import find_server
    from muster.domain.errors import InvalidRequest
    from muster.integrations.docker.spec import DOCKER

    engines: Sequence[EngineConfig] = machine.config.tables[DOCKER]
    templates = [each for each in machine.config.templates if each.provider == DOCKER]
    if templates and not engines:
        words = f"template {templates[0].name} uses the provider docker, but no engine is named"
        yield Check.failed(DOCKER, words, 'write [docker.NAME] with host = "unix:///var/run/docker.sock"')
    urls = machine.config.server.public_url
    if machine.installation_id is not None:
        urls = urls or (find_server(os.environ, machine.data).url,)
    for config in engines:
        try:
            yield from _asked(config, templates, urls)
        except InvalidRequest as error:
            yield Check.failed(f"docker.{config.name}", str(error))


def _asked(config: "EngineConfig", templates: "Sequence[TemplateSpec]", urls: Sequence[str]) -> "list[Check]":
    import asyncio

    from muster.integrations.docker.api import Engine
    from muster.integrations.docker.inspection import findings

    async def ask() -> list[Check]:
        engine = Engine(config)
        try:
            return [check async for check in findings(engine, templates, urls)]
        finally:
            await engine.close()

    return asyncio.run(ask())
