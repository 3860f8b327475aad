"""Apps that are nodes themselves: a real FastAPI app on uvicorn, a real server, real signals."""

import asyncio
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from muster.client import calls
from muster.domain.access import ApiToken, Role, hashed
from muster.domain.command import Execution
from muster.domain.errors import InvalidRequest
from muster.domain.template import Runtime, TemplateSpec
from muster.system import SystemIds
from muster.wire.nodes import Node
from tests.e2e.service import Service, Wire
from tests.e2e.site import BRISK, Site, until
from tests.stores.files import open_store

CONFIG = f"""
{BRISK}
service_stale_after = 7
lost_after = {{lost_after}}
"""
SPEC = TemplateSpec(name="web", provider="external", runtime=Runtime.SERVICE)


class AppSite:
    """A server with a template of apps, and the apps that a test starts."""

    def __init__(self, site: Site) -> None:
        self.site = site
        self.services: list[Service] = []
        site.client.send(calls.apply(SPEC))
        made = site.client.send(calls.make_token("web apps", Role.ENROL, template="web", expires_in=3600))
        self.token_id, self.secret = made.id, made.secret

    def service(
        self,
        name: str = "web-1",
        *,
        server: str = "",
        gate: bool = False,
        token: str = "",
        probed: bool = True,
    ) -> Service:
        made = Service(
            self.site.root / "apps",
            server=server or self.site.url,
            token=token or self.secret,
            name=name,
            gate=gate,
            probed=probed,
        )
        self.services.append(made)
        return made.start()

    def nodes(self, *states: str) -> tuple[Node, ...]:
        return self.site.nodes(*states, template="web")

    def node_in(self, state: str, *, but: str = "") -> Node:
        def look() -> Node | None:
            return next((node for node in self.nodes(state) if node.id != but), None)

        return until(look, f"an app that is {state}: {self.words()}")

    def health(self, node_id: str) -> list[str]:
        return [event.name for event in self.site.feed() if _is_health_of(event, node_id)]

    def feels(self, node_id: str, health: str) -> None:
        until(lambda: self.health(node_id)[-1:] == [health], f"{node_id} to be {health}: {self.words()}")

    def serving(self, *, but: str = "") -> Node:
        """Running, and found ready."""
        node = self.node_in("running", but=but)
        self.feels(node.id, "ready")
        return node

    def words(self) -> str:
        return "\n".join(service.words[-2000:] for service in self.services)


def _is_health_of(event: object, node_id: str) -> bool:
    return getattr(event, "entity", "") == "health" and getattr(event, "entity_id", "") == node_id


@pytest.fixture
def make_app_site(make_site: Callable[..., Site]) -> Iterator[Callable[..., AppSite]]:
    made: list[AppSite] = []

    def make(lost_after: float = 60.0) -> AppSite:
        made.append(AppSite(make_site(config=CONFIG.format(lost_after=lost_after)).start()))
        return made[-1]

    try:
        yield make
    finally:
        for app_site in made:
            for service in app_site.services:
                service.__exit__(None, None, None)


def test_an_app_is_starting_until_it_really_accepts_and_then_it_runs_and_is_ready(
    make_app_site: Callable[..., AppSite],
) -> None:
    app_site = make_app_site(lost_after=3)
    service = app_site.service(gate=True)
    node = app_site.node_in("created")
    until(lambda: app_site.site.node(node.id).last_seen_at, "its first beat")
    assert app_site.site.node(node.id).booted_at is None
    service.open()
    running = app_site.serving()
    assert (running.id, running.run, running.operation_id) == (node.id, "web-1", None)
    assert running.deadline_at is None and running.assignment_id == node.assignment_id
    assert service.about() == {"id": node.id, "status": "ready", "problem": None}
    names = [event.name for event in app_site.site.feed() if event.entity_id == node.id]
    assert [name for name in names if name not in ("ready", "starting")] == [
        "adopt",
        "joined",
        "booted",
        "attached",
        "hand_over",
    ]


def test_an_app_is_degraded_by_its_own_word_and_ready_again(make_app_site: Callable[..., AppSite]) -> None:
    app_site = make_app_site(lost_after=3)
    service = app_site.service()
    node = app_site.serving()
    service.do("/degraded?reason=db%20is%20slow")
    app_site.feels(node.id, "degraded")
    told = [event for event in app_site.site.feed() if _is_health_of(event, node.id)][-1]
    assert told.detail == "db is slow"
    service.do("/ready")
    app_site.feels(node.id, "ready")
    assert app_site.nodes("running")[0].version == node.version, "health never moves the record"


def test_sigterm_drains_says_offline_and_leaves(
    make_app_site: Callable[..., AppSite], tmp_path: Path
) -> None:
    app_site = make_app_site(lost_after=600)
    service = app_site.service()
    node = app_site.serving()
    done = tmp_path / "done"
    working = app_site.site.soon(service.slowly, done)
    until((tmp_path / "done.begun").exists, "the app to work")
    service.send(signal.SIGTERM)
    app_site.feels(node.id, "offline")
    assert app_site.site.node(node.id).state == "running", "it still works on what it has"
    done.touch()
    assert working.result(30).json() == {"status": "done"}
    assert service.ended() in (0, -signal.SIGTERM)
    gone = app_site.site.node_in("terminated", node.id)
    assert gone.reason == "left"
    assert "Traceback" not in service.words


def test_an_app_that_is_killed_is_offline_then_given_up_and_its_restart_is_a_new_node(
    make_app_site: Callable[..., AppSite],
) -> None:
    app_site = make_app_site(lost_after=3)
    service = app_site.service()
    node = app_site.serving()
    service.kill()
    again = service.start()
    fresh = app_site.serving(but=node.id)
    assert fresh.id != node.id and again.about()["id"] == fresh.id
    app_site.feels(node.id, "offline")
    gone = app_site.site.node_in("terminated", node.id)
    assert gone.reason == "heartbeat_lost"
    assert app_site.site.node(fresh.id).state == "running"


def test_a_restart_with_a_goodbye_is_a_new_node_and_the_old_one_is_gone(
    make_app_site: Callable[..., AppSite],
) -> None:
    app_site = make_app_site(lost_after=600)
    service = app_site.service()
    node = app_site.serving()
    service.send(signal.SIGTERM)
    service.ended()
    service.start()
    fresh = app_site.serving(but=node.id)
    assert app_site.site.node_in("terminated", node.id).reason == "left"
    service.send(signal.SIGTERM)
    app_site.site.node_in("terminated", fresh.id)


def test_a_frozen_app_is_offline_and_comes_back_as_the_same_node(
    make_app_site: Callable[..., AppSite],
) -> None:
    app_site = make_app_site(lost_after=60)
    service = app_site.service()
    node = app_site.serving()
    service.send(signal.SIGSTOP)
    app_site.feels(node.id, "offline")
    service.send(signal.SIGCONT)
    app_site.feels(node.id, "ready")
    assert app_site.site.node(node.id).state == "running"
    service.send(signal.SIGTERM)
    app_site.site.node_in("terminated", node.id)


def test_an_app_that_was_frozen_for_too_long_joins_anew_by_itself(
    make_app_site: Callable[..., AppSite],
) -> None:
    app_site = make_app_site(lost_after=3)
    service = app_site.service()
    node = app_site.serving()
    service.send(signal.SIGSTOP)
    assert app_site.site.node_in("terminated", node.id).reason == "heartbeat_lost"
    service.send(signal.SIGCONT)
    fresh = app_site.serving(but=node.id)
    assert service.about()["id"] == fresh.id
    assert "given up and enrols again" in service.words


def test_a_partition_heals(make_app_site: Callable[..., AppSite]) -> None:
    app_site = make_app_site(lost_after=60)
    with Wire(int(app_site.site.url.rpartition(":")[2])) as wire:
        service = app_site.service(server=wire.url, probed=False)
        node = app_site.serving()
        wire.cut()
        app_site.feels(node.id, "offline")
        assert service.about()["status"] == "ready", "the app goes on"
        wire.heal()
        app_site.feels(node.id, "ready")
        assert service.about()["id"] == node.id
        service.send(signal.SIGTERM)
        assert app_site.site.node_in("terminated", node.id).reason == "left"


def test_an_app_survives_restarts_of_the_server_and_uses_the_server_that_answers(
    make_app_site: Callable[..., AppSite],
) -> None:
    app_site = make_app_site(lost_after=3)
    nobody = "http://127.0.0.1:9"
    service = app_site.service(server=f"{nobody},{app_site.site.url}")
    node = app_site.serving()
    app_site.site.kill()
    until(lambda: "no server answers" in service.words, "the app to notice")
    app_site.site.start()
    until(lambda: "the server answers again" in service.words, "the app to be heard")
    assert service.about() == {"id": node.id, "status": "ready", "problem": None}
    assert app_site.site.node(node.id).state == "running"


@pytest.mark.parametrize("moment", ["adopt", "joined", "booted", "attached", "hand_over"])
def test_a_server_that_dies_while_an_app_comes_up_leaves_one_node_that_runs(
    make_app_site: Callable[..., AppSite], moment: str
) -> None:
    app_site = make_app_site(lost_after=3)
    app_site.site.doom(f"node:{moment}")
    service = app_site.service()
    assert app_site.site.gone() == -signal.SIGKILL
    app_site.site.start()
    node = app_site.serving()
    assert service.about()["id"] == node.id
    assert [each.id for each in app_site.nodes()] == [node.id]


def test_an_app_that_the_control_plane_forgot_joins_anew(make_app_site: Callable[..., AppSite]) -> None:
    app_site = make_app_site(lost_after=3)
    site = app_site.site
    service = app_site.service()
    node = app_site.serving()
    site.kill()
    for path in site.data.glob("muster.db*"):
        path.unlink()
    (site.data / "installation").unlink()
    asyncio.run(_remember_only_the_token(site.data / "muster.db", app_site.secret))
    site.client.close()
    site._client = None
    site.start()
    fresh = app_site.serving()
    assert fresh.id != node.id
    assert service.about()["id"] == fresh.id


async def _remember_only_the_token(database: Path, secret: str) -> None:
    store = open_store(database, ids=SystemIds())
    await store.apply_template(SPEC, now=1.0)
    token = ApiToken(id="tok-1", name="web apps", role=Role.ENROL, created_at=1.0, template="web")
    await store.access.add_token(token, secret_hash=hashed(secret))
    await store.close()


def test_an_app_that_an_operator_took_out_goes_on_without_being_a_node(
    make_app_site: Callable[..., AppSite],
) -> None:
    app_site = make_app_site(lost_after=600)
    service = app_site.service()
    node = app_site.serving()
    app_site.site.ask(calls.terminate(node.id))
    gone = app_site.site.node_in("terminated", node.id)
    assert gone.reason == "operator"
    until(lambda: "taken out" in service.words, "the app to hear it")
    about = service.about()
    assert about["id"] is None and "stays out until it is started again" in about["problem"]
    assert app_site.nodes() == ()
    service.send(signal.SIGTERM)
    assert service.ended() in (0, -signal.SIGTERM)


@pytest.mark.parametrize("how", ["wrong", "expired", "revoked", "of another role"])
def test_a_token_that_is_no_good_is_told_plainly_and_the_app_goes_on(
    make_app_site: Callable[..., AppSite], how: str
) -> None:
    app_site = make_app_site(lost_after=3)
    client = app_site.site.client
    secret: str | None = "muster_nonsense"
    said = "send a valid token"
    if how == "expired":
        secret = client.send(calls.make_token("brief", Role.ENROL, template="web", expires_in=0.001)).secret
        said = "has expired"
    elif how == "revoked":
        client.send(calls.revoke_token(app_site.token_id))
        secret, said = app_site.secret, "was revoked"
    elif how == "of another role":
        secret, said = client.send(calls.make_token("ops", Role.ADMIN)).secret, "needs the role enrol"
    assert secret is not None
    service = app_site.service(token=secret)
    until(lambda: said in service.words, f"the app to say {said!r}: {service.words}")
    assert said in str(service.about()["problem"])
    assert secret not in service.words
    assert app_site.nodes() == ()


def test_a_full_template_turns_apps_away_until_there_is_room(make_app_site: Callable[..., AppSite]) -> None:
    app_site = make_app_site(lost_after=600)
    app_site.site.client.send(
        calls.apply(TemplateSpec(name="web", provider="external", runtime=Runtime.SERVICE, max_nodes=1))
    )
    first = app_site.service("web-1")
    node = app_site.serving()
    second = app_site.service("web-2")
    until(lambda: "uses 1 of 1" in second.words, "the second app to be told")
    first.send(signal.SIGTERM)
    app_site.site.node_in("terminated", node.id)
    assert app_site.serving(but=node.id).run == "web-2"
    second.send(signal.SIGTERM)
    second.ended()


def test_apps_can_not_be_asked_for(make_app_site: Callable[..., AppSite]) -> None:
    app_site = make_app_site()
    with pytest.raises(InvalidRequest, match="apps that enrol themselves"):
        app_site.site.client.send(calls.provision(app_site.site.request(template="web")))
    with pytest.raises(InvalidRequest, match="apps that enrol themselves"):
        app_site.site.client.send(calls.run(app_site.site.request(template="web"), Execution(argv=("true",))))
