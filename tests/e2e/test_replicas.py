"""Three servers on one PostgreSQL: one dies, one stands still, all are restarted. Every request is served."""

import contextlib
import itertools
import json
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import psycopg
import pytest

from muster.client import calls
from muster.domain.access import Role
from muster.domain.settings import PRICED_LEASE, PRICED_RENEW_EVERY, Settings
from muster.domain.template import Runtime, TemplateSpec
from muster.wire.nodes import Node
from muster.wire.operations import Operation
from tests.e2e.fork_server import ForkServer
from tests.e2e.replicas import Replicas, taken_over
from tests.e2e.site import Site, until
from tests.stores import emulator, postgres
from tests.stores.wire import Wire

pytestmark = pytest.mark.timeout(400)  # takeovers wait for leases: up to 72 s each on a busy machine
AGENT = "/api/v1/agent"
TAKEOVER = 20.0
"""Seconds from the death of a server until another drives what it led."""
ENGINES = {"postgresql": postgres.empty, "dynamodb": emulator.address}


@pytest.fixture(params=["postgresql"])
def replicas(tmp_path: Path, fork_server: ForkServer, request: pytest.FixtureRequest) -> Iterator[Replicas]:
    replicas = Replicas(tmp_path, fork_server, ENGINES[request.param]())
    try:
        yield replicas.start()
        replicas.verify()
    finally:
        replicas.close()


class Follower:
    """Reads the event stream of one server after another, each from where the last one broke off."""

    def __init__(self, replicas: Replicas) -> None:
        self._replicas = replicas
        self._place: str | None = None
        self._enough = threading.Event()
        self.ids: list[str] = []
        self.servers: set[str] = set()
        self._thread = threading.Thread(target=self._follow_all, daemon=True)
        self._thread.start()

    def until(self, last: str) -> None:
        """Until it has seen that event."""
        until(lambda: last in self.ids, f"event {last} in the stream")
        self._enough.set()

    def _follow_all(self) -> None:
        for site in itertools.cycle(self._replicas.sites):
            if self._enough.is_set():
                return
            with contextlib.suppress(httpx.HTTPError):
                self._follow(site)

    def _follow(self, site: Site) -> None:
        headers = {"Accept": "text/event-stream"}
        if self._place is not None:
            headers["Last-Event-ID"] = self._place
        with site.http() as http, http.stream("GET", "/api/v1/events", headers=headers) as stream:
            assert stream.status_code == 200
            self.servers.add(site.url)
            for line in stream.iter_lines():
                if line.startswith("id: "):
                    self._place = line.removeprefix("id: ")
                if line.startswith("data: "):
                    self.ids.append(json.loads(line.removeprefix("data: "))["id"])
                if self._enough.is_set():
                    return


@pytest.mark.parametrize("replicas", ENGINES, indirect=True)
def test_a_server_that_is_killed_in_the_middle_is_replaced_and_nothing_is_doubled_or_leaked(
    replicas: Replicas,
) -> None:
    first, second, third = replicas.sites
    warm = first.provision(1, run="warm")
    assert second.release(warm).status == "succeeded"
    # Machines were made and not yet recorded; and: they were recorded, but that was not yet told.
    dying = [(second, "provider:spawned"), (first, "launch:settled")]
    made: list[Operation] = []
    for site, label in dying:
        site.doom(label)
        made.append(site.client.send(calls.provision(site.request(2, f"of {site.url}"))))
        assert site.gone() == -signal.SIGKILL
    for operation in made:
        assert len(third.succeeded(operation, 100.0).members) == 2
        assert taken_over(third, operation.operation_id)()
    nodes = third.nodes("running")
    assert len(nodes) == 4
    assert {node.operation_id for node in nodes} == {operation.operation_id for operation in made}
    # One holder at a time: a replica performs a duty until it dies, never in turns with another.
    ticks: dict[str, list[str]] = {}
    for line in replicas.ticks.read_text().splitlines():
        duty, owner = line.split()
        ticks.setdefault(duty, []).append(owner)
    assert len(ticks) > 5
    for duty, owners in ticks.items():
        turns = [owner for owner, _ in itertools.groupby(owners)]
        assert len(turns) == len(set(turns)), f"{duty} was done in turns: {turns}"


def heard_at(node: Node) -> float:
    return node.last_seen_at.timestamp() if node.last_seen_at else 0.0


@pytest.mark.parametrize("replicas", ENGINES, indirect=True)
def test_a_server_that_stood_still_in_a_write_past_its_lease_is_refused_when_it_wakes(
    replicas: Replicas,
) -> None:
    """A claim: it is guarded by nothing but the lease, and would take a node for a run that has its own."""
    first, second, third = replicas.sites
    assert first.release(first.provision(2, run="warm")).status == "succeeded"
    second.halt("claim")
    asked = second.soon(second.ask, calls.provision(second.request(1, "halted")))
    until(second.halted, "it to stand still")
    (operation,) = third.unfinished()
    done = third.succeeded(operation, 100.0)
    assert taken_over(third, operation.operation_id)()
    told = third.ask(calls.events(entity_id=operation.operation_id, limit=1000)).items
    (spare,) = third.nodes("idle")
    second.send(signal.SIGCONT)
    assert until(second.late, "the end of its write") == [("claim", "LeaseLost")]
    assert asked.result(60.0).operation_id == operation.operation_id
    assert second.operation(operation.operation_id).version == done.version
    assert [node.id for node in third.nodes("idle", "claimed")] == [spare.id]
    # It goes on as one of three, and what it led before is none of its business any more. The spare node may
    # have spoken to it alone, so it can be claimed only when it was heard again.
    woken = time.time()
    until(lambda: heard_at(third.node(spare.id)) > woken, "the spare node to be heard again")
    again = second.succeeded(second.ask(calls.provision(second.request(1, "after"))))
    assert [member.node_id for member in again.members] == [spare.id]
    assert third.ask(calls.events(entity_id=operation.operation_id, limit=1000)).items == told


@pytest.mark.parametrize(
    ("engine", "lease"), [("postgresql", Settings().lease), ("dynamodb", PRICED_LEASE)], ids=list(ENGINES)
)
def test_another_server_drives_what_a_killed_one_led_within_20_s(
    tmp_path: Path, fork_server: ForkServer, engine: str, lease: float
) -> None:
    """With the leases that servers really have: on DynamoDB one of 60 s, on both one prolonged for a call."""
    replicas = Replicas(tmp_path, fork_server, ENGINES[engine](), 2, lease=lease)
    try:
        first, second = replicas.start().sites
        first.doom("launch:settled")
        operation = first.client.send(calls.provision(first.request(2, "led")))
        assert first.gone() == -signal.SIGKILL
        killed_at = time.time()
        assert len(second.succeeded(operation, 100.0).members) == 2
        told = second.ask(calls.events(entity_id=operation.operation_id, limit=1000)).items
        (taken_at,) = [event.at.timestamp() for event in told if event.name == "taken_over"]
        assert taken_at - killed_at <= TAKEOVER
        replicas.verify()
    finally:
        replicas.close()


@pytest.mark.parametrize("engine", ENGINES)
def test_a_queue_goes_on_when_the_server_that_leads_its_head_is_killed(
    tmp_path: Path, fork_server: ForkServer, engine: str
) -> None:
    """Long before its lease lapses."""
    replicas = Replicas(tmp_path, fork_server, ENGINES[engine](), lease=PRICED_LEASE)
    first, second, third = replicas.sites
    try:
        replicas.start()
        first.template(max_nodes=1)
        held = first.provision(1, run="first")
        head = second.ask(calls.provision(second.request(1, "head", queue_timeout=300.0)))
        until(lambda: _waits(third, head), "the head to wait")
        behind = third.ask(calls.provision(third.request(1, "behind", queue_timeout=300.0)))
        until(lambda: _waits(third, behind), "the next one to wait")
        second.kill()
        killed_at = time.monotonic()
        assert first.release(held).status == "succeeded"
        served = third.succeeded(head, 40.0)
        assert time.monotonic() - killed_at < PRICED_LEASE - PRICED_RENEW_EVERY
        assert taken_over(third, head.operation_id)()
        assert first.release(served).status == "succeeded"
        third.succeeded(behind, 40.0)
        replicas.verify()
    finally:
        replicas.close()


def _waits(site: Site, operation: Operation) -> bool:
    events = site.ask(calls.events(entity_id=operation.operation_id, limit=1000)).items
    return any(event.name == "queued" for event in events)


def test_a_rolling_restart_under_load_loses_nothing_that_was_acknowledged(replicas: Replicas) -> None:
    follower = Follower(replicas)
    stopping = threading.Event()
    done: list[Operation] = []

    def calling(place: int) -> None:
        for number in itertools.count():
            request = replicas.sites[place].request(1, f"run-{place}-{number}")
            operation = replicas.ask(calls.provision(request), first=place)
            done.append(_ended(replicas, operation, place))
            release = replicas.ask(calls.release(operation_id=operation.operation_id), first=place)
            done.append(_ended(replicas, release, place))
            if stopping.is_set():
                return

    callers = [replicas.sites[0].soon(calling, place) for place in range(3)]
    for site in replicas.sites:
        enough = len(done) + 3
        until(lambda: len(done) >= enough, "some work to be done")  # noqa: B023 — asked at once
        assert site.stop() == 0
        site.start()
    stopping.set()
    for caller in callers:
        caller.result(100.0)
    assert [operation.error for operation in done if operation.status != "succeeded"] == []
    feed = [event.id for event in replicas.sites[0].feed()]
    follower.until(feed[-1])
    seen = [place for place in dict.fromkeys(follower.ids) if place in set(feed)]
    assert seen[: len(feed)] == feed
    assert len(follower.servers) > 1


def _ended(replicas: Replicas, operation: Operation, place: int) -> Operation:
    def look() -> Operation | None:
        found = replicas.ask(calls.operation(operation.operation_id), first=place)
        return found if found.ended else None

    return until(look, f"the end of {operation.kind} {operation.operation_id}", 100.0)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_store_that_is_away_is_told_with_503_until_it_is_back(
    tmp_path: Path, fork_server: ForkServer, engine: str
) -> None:
    wire, address = _wired(engine)
    replicas = Replicas(tmp_path, fork_server, address, count=1)
    (site,) = replicas.sites
    try:
        replicas.start()
        with site.http() as http:
            assert until(lambda: http.get("/readyz").status_code == 200, "it to be ready")
            wire.cut()
            refused = http.get("/api/v1/nodes")
            assert (refused.status_code, refused.json()["code"]) == (503, "store_unavailable")
            assert refused.headers["Retry-After"]
            stranger = http.get("/api/v1/nodes", headers={"Authorization": "Bearer wrong"})
            assert (stranger.status_code, stranger.json()["code"]) == (503, "store_unavailable")
            for answer in (refused, stranger):
                for word in _secrets_of(address):
                    assert word not in answer.text
            unready = http.get("/readyz")
            assert (unready.status_code, unready.headers["Retry-After"]) == (503, "5")
            assert "the store" in unready.json()["detail"]
            assert http.get("/healthz").status_code == 200
            wire.mend()
            until(lambda: http.get("/readyz").status_code == 200, "it to be ready again")
        site.succeeded(site.ask(calls.provision(site.request(1, "after"))))
        replicas.verify()
    finally:
        replicas.close()
        wire.close()


def _secrets_of(address: str) -> list[str]:
    """What an address says of the store: its host or table, its user, its port."""
    url = urlsplit(address)
    return [word for word in (url.hostname, url.username, str(url.port), url.path.strip("/")) if word]


def _wired(engine: str) -> tuple[Wire, str]:
    """A new store, and the wire that leads to it."""
    if engine == "postgresql":
        wire = Wire(postgres.directory())
        return wire, wire.url(postgres.empty())
    wire = Wire(emulator.place())
    return wire, emulator.address(through=wire.endpoint())


def test_a_replica_that_looks_for_process_nodes_elsewhere_is_refused(
    tmp_path: Path, fork_server: ForkServer
) -> None:
    replicas = Replicas(tmp_path, fork_server, postgres.empty(), count=2)
    first, other = replicas.sites
    try:
        first.start()
        elsewhere = other._config.read_text().replace("machines", "elsewhere")
        for config in (elsewhere, elsewhere.replace("capacity = 40", "capacity = 0")):
            other._config.write_text(config)
            assert "the same [process] directory on one machine" in other.refused()
        assert first.stop() == 0
    finally:
        replicas.close()


def test_a_dead_token_counts_at_no_replica_though_every_notice_is_lost(
    tmp_path: Path, fork_server: ForkServer
) -> None:
    address = postgres.empty()
    with psycopg.connect(address, autocommit=True) as admin:
        admin.execute(f"ALTER DATABASE {admin.info.dbname} SET search_path = public, pg_catalog".encode())
        admin.execute("CREATE FUNCTION pg_notify(text, text) RETURNS void LANGUAGE sql AS ''")
        admin.execute("LISTEN muster")
        replicas = Replicas(tmp_path, fork_server, address, count=2).start()
        try:
            here, there = replicas.sites
            spec = TemplateSpec(name="web", provider="external", runtime=Runtime.SERVICE)
            here.client.send(calls.apply(spec))
            secret = here.client.send(calls.make_token("apps", Role.ENROL, template="web")).secret
            older = _enrolled(here, secret)
            assert _heard(here, older) == _heard(there, older) == [200, 200]
            newer = _enrolled(here, secret)
            assert _heard(here, older) == _heard(there, older) == [401, 401]
            assert _heard(here, newer) == _heard(there, newer) == [200, 200]
        finally:
            replicas.close()
        assert not list(admin.notifies(timeout=0.1)), "else a notice told of the dead token"


def _enrolled(site: Site, secret: str) -> str:
    said = {"key": "drawn-at-random-1", "boot_id": "boot-1", "name": "web-1", "beat_seconds": 5}
    answer = httpx.post(f"{site.url}{AGENT}/enrol", json=said, headers=_bearer(secret), trust_env=False)
    assert answer.status_code == 200, answer.text
    return str(answer.json()["token"])


def _heard(site: Site, token: str) -> list[int]:
    """How a server answers a report, and a look at the desired state."""
    with httpx.Client(base_url=site.url + AGENT, headers=_bearer(token), trust_env=False) as http:
        looked = http.get("/desired", params={"known": -1, "timeout": 0})
        return [http.post("/report", json={}).status_code, looked.status_code]


def _bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}
