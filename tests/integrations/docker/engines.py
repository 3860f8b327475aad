"""Real engines for these tests: one Podman and one dockerd, shared by all test processes of a session."""

import fcntl
import json
import os
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import mkdtemp
from typing import Any
from uuid import uuid4

import pytest

from tests.integrations.docker.lab import Lab
from tools.engines import getting
from tools.engines.running import Engine, archive

KINDS = ("podman", "dockerd")


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Iterator[Callable[[str], Engine]]:
    """Engines by kind, started by the first who needs one and stopped by the last who is done."""
    base = tmp_path_factory.getbasetemp()
    base = base if worker_id == "master" else base.parent
    used: list[str] = []
    me = uuid4().hex

    def get(kind: str) -> Engine:
        why = getting.missing(kind)
        if why is not None:
            pytest.skip(why)
        # The first process of the session outlives its workers.
        engine = Engine(kind, base / kind, owner=os.getpid() if worker_id == "master" else os.getppid())
        with _locked(base / f"{kind}.lock"):
            users = _users(base, kind)
            if not users:
                engine.start()
                engine.load(archive(getting.UNPACKED))
            if kind not in used:
                used.append(kind)
                _write(base, kind, [*users, me])
        return engine

    yield get
    for kind in used:
        with _locked(base / f"{kind}.lock"):
            left = [each for each in _users(base, kind) if each != me]
            _write(base, kind, left)
            if not left:
                Engine(kind, base / kind).adopt().close()


def _users(base: Path, kind: str) -> list[str]:
    path = base / f"{kind}.users"
    found: list[str] = json.loads(path.read_text()) if path.exists() else []
    return found


def _write(base: Path, kind: str, users: list[str]) -> None:
    (base / f"{kind}.users").write_text(json.dumps(users))


@pytest.fixture(params=KINDS)
def engine(request: pytest.FixtureRequest, shared: Callable[[str], Engine]) -> Engine:
    """Each kind in turn."""
    return shared(request.param)


@pytest.fixture
async def lab(engine: Engine) -> AsyncIterator[Lab]:
    lab = Lab(engine)
    yield lab
    await lab.close()


@pytest.fixture
def alone(engine: Engine) -> Iterator[None]:
    """For tests with installations that others have too."""
    with _locked(engine.root.with_suffix(".turn")):
        yield


@pytest.fixture
def own_engine() -> Iterator[Callable[..., Engine]]:
    """Engines for tests that hurt them. Their sockets need short paths."""
    made: list[Engine] = []

    def make(kind: str, **options: Any) -> Engine:
        why = getting.missing(kind)
        if why is not None:
            pytest.skip(why)
        made.append(Engine(kind, Path(mkdtemp(prefix="muster-")), **options))
        made[-1].start().load(archive(getting.UNPACKED))
        return made[-1]

    yield make
    for engine in made:
        engine.close()
