"""What an engine answers to `muster doctor`: version, limits, images, whether containers reach the server.

Asks, and leaves nothing: the one container that it starts is removed again.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from muster.domain.template import TemplateSpec
from muster.integration import Check, Level
from muster.integrations.docker import answers, images, names
from muster.integrations.docker.api import Engine, EngineError, NoAnswer, path_of
from muster.integrations.docker.body import GRACE
from muster.integrations.docker.spec import DockerSpec, Pull
from muster.integrations.docker.tables import TEMPLATE

REACH_WITHIN = 30.0
_ASK = "import sys, urllib.request as u; u.urlopen(sys.argv[1] + '/healthz', timeout=10)"
_LIMITS = {"MemoryLimit": "memory", "CpuCfsQuota": "processors", "PidsLimit": "processes"}


async def findings(
    engine: Engine, templates: Sequence[TemplateSpec], urls: Sequence[str]
) -> AsyncIterator[Check]:
    """All that is to say about one engine."""
    subject = f"docker.{engine.name}"
    try:
        said, info = await engine.get("/version"), await engine.get("/info")
        version = await engine.version()
    except (EngineError, NoAnswer) as error:
        yield Check.failed(subject, f"{engine.config.host} does not answer: {error}", _advice(engine))
        return
    known = info if isinstance(info, Mapping) else {}
    words = (
        f"{_product(said)} at {engine.config.host}, API {version}; room for {engine.config.capacity} nodes"
    )
    yield Check.ok(subject, words)
    for check in (_limits(subject, known), _restart(subject, known)):
        if check is not None:
            yield check
    why = engine.config.unreachable(urls)
    if why is not None:
        yield Check.warning(subject, why)
    asked: list[str] = []
    for template in templates:
        spec = TEMPLATE.of(template)
        check = await _image(engine, template.name, spec)
        yield check
        reaches = f"{spec.image} {spec.network}"
        if check.level is Level.OK and urls and reaches not in asked:
            asked.append(reaches)
            yield await _reach(engine, spec, urls)


async def _image(engine: Engine, template: str, spec: DockerSpec) -> Check:
    subject, image = f"docker.{engine.name}", spec.parts.whole
    try:
        there = await images.has(engine, spec.parts)
    except (EngineError, NoAnswer) as error:
        return Check.failed(subject, f"cannot look for {image}: {error}")
    if there:
        return Check.ok(subject, f"has {image} for template {template}")
    if spec.pull is Pull.NEVER:
        words = f"has no {image}, and template {template} says pull = never"
        return Check.failed(subject, words, f"load {image} on that engine")
    words = f"has no {image}: the first node of template {template} waits for the pull"
    return Check.warning(subject, words, f"pull it before: docker pull {image}")


async def _reach(engine: Engine, spec: DockerSpec, urls: Sequence[str]) -> Check:
    """Start a container as a node would be, let it ask the server, and remove it."""
    subject, url = f"docker.{engine.name}", (engine.config.server_url or tuple(urls))[0]
    network = spec.network or engine.config.network
    host = {"NetworkMode": network} if network else {}
    asked: dict[str, Any] = {
        "Image": spec.parts.whole,
        "Entrypoint": [spec.python, "-c", _ASK, url],
        "StopTimeout": GRACE,
        "Labels": {names.KIND: "doctor"},
        "HostConfig": {**host, "ExtraHosts": list(engine.config.extra_hosts)},
    }
    made = ""
    try:
        made = answers.identity_of(await engine.post("/containers/create", json=asked))
        await engine.post(path_of("containers", made, "start"))
        ended = await engine.post(path_of("containers", made, "wait"), timeout=REACH_WITHIN)
        code = ended.get("StatusCode") if isinstance(ended, Mapping) else None
        if code == 0:
            return Check.ok(subject, f"a container reaches {url}")
        words = f"a container can't reach {url}, or has no {spec.python} (exit code {code})"
        advice = f"set server_url and extra_hosts under [docker.{engine.name}]; the server must be up"
        return Check.warning(subject, words, advice)
    except (EngineError, NoAnswer) as error:
        return Check.failed(subject, f"cannot start a container of {spec.parts.whole}: {error}")
    finally:
        if made:
            await _remove(engine, made)


async def _remove(engine: Engine, made: str) -> None:
    with suppress(EngineError, NoAnswer):
        await engine.call("DELETE", path_of("containers", made), params={"force": "true", "v": "true"})


def _product(said: object) -> str:
    parts = said.get("Components") if isinstance(said, Mapping) else None
    first = parts[0] if isinstance(parts, list) and parts and isinstance(parts[0], Mapping) else {}
    name = str(first.get("Name", "engine"))
    return f"{'Docker' if name == 'Engine' else name} {first.get('Version', '')}".strip()


def _limits(subject: str, info: Mapping[str, Any]) -> Check | None:
    if info.get("Rootless") is True and info.get("CgroupVersion") == "1":
        # Podman says that it can, and then ignores them.
        words = "is an ordinary user's Podman on cgroup v1, which ignores all limits of its nodes"
        return Check.warning(subject, words, "boot its machine with cgroup v2")
    lacking = [word for key, word in _LIMITS.items() if info.get(key) is False]
    if not lacking:
        return None
    words = f"can't limit {', '.join(lacking)}: its nodes may take all of the machine's"
    return Check.warning(subject, words, "enable these cgroup controllers")


def _restart(subject: str, info: Mapping[str, Any]) -> Check | None:
    """Podman's containers live on by themselves, and it doesn't tell of this setting."""
    if (
        info.get("LiveRestoreEnabled") is not False
        or "buildahVersion" in info
        or not info.get("ContainerdCommit")
    ):
        return None
    words = "a restart of dockerd ends its nodes"
    return Check.warning(subject, words, 'set "live-restore": true in daemon.json')


def _advice(engine: Engine) -> str:
    if engine.config.socket is not None:
        return "start the engine, check the path of its socket and that the server's user may use it"
    return f"check the address, and ca, cert and key under [docker.{engine.name}]"
