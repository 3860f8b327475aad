"""A site whose nodes are containers on real engines."""

from collections.abc import Callable, Mapping
from typing import Any

from muster.integrations.docker import names
from muster.wire.nodes import Node
from tests.e2e.site import Site, until
from tools.engines.running import IMAGE, Engine

CONFIG = "[limits]\nstale_after = 16\n[process]\ncapacity = 0\n"
ENGINE = '[docker.{name}]\nhost = "{host}"\nnetwork = "host"\ncapacity = {capacity}\n'


def site_on(make_site: Callable[..., Site], *engines: Engine, capacity: int = 6, **docker: Any) -> Site:
    """A server with a template `ci` for these engines."""
    tables = [
        ENGINE.format(name=f"{each.kind}-{at}", host=each.host, capacity=capacity)
        for at, each in enumerate(engines)
    ]
    site = make_site(config=CONFIG + "".join(tables)).start()
    template(site, **docker)
    return site


def template(
    site: Site, name: str = "ci", image: str = IMAGE, spec: Mapping[str, Any] = {}, **docker: Any
) -> None:
    site.template(name, provider="docker", tables={"docker": {"image": image, **docker}}, **spec)


def container(node: Node) -> str:
    machine = names.parsed(node.machine_id)
    assert machine is not None
    return machine.container


def inspected(engine: Engine, node: Node) -> Mapping[str, Any]:
    answer = engine.call("GET", f"/containers/{container(node)}/json")
    found: Mapping[str, Any] = answer.json() if answer.is_success else {}
    return found


def running(site: Site, engine: Engine) -> list[str]:
    """Names of our containers that run there."""
    label = f"{names.INSTALLATION}={site.installation_id}"
    return sorted(
        str(each["Names"][0]).lstrip("/")  # type: ignore[index]
        for each in engine.containers(label)
        if each["State"] == "running"
    )


def none_runs(site: Site, engine: Engine) -> None:
    until(lambda: not running(site, engine), "every container to end")
