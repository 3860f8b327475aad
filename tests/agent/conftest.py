from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.agent.plane import Plane, Running, Server


@pytest.fixture
def plane() -> Plane:
    return Plane()


@pytest.fixture
def server(plane: Plane) -> Iterator[Server]:
    server = Server(plane)
    yield server
    if not plane.stopped:
        server.stop()


@pytest.fixture
def start(tmp_path: Path, server: Server) -> Iterator[Callable[..., Running]]:
    """Starts an agent; every call is another life of it, in the same directory."""
    running: list[Running] = []

    def started(*servers: str, **more: Any) -> Running:
        running.append(Running(tmp_path / "node", *(servers or (server.url,)), **more))
        return running[-1]

    yield started
    for one in running:
        one.close()
