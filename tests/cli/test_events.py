from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from muster.cli import events
from muster.wire.base import Page
from muster.wire.events import Event
from tests.cli.terminal import Terminal


def told(name: str, title: str) -> Event:
    at = datetime(2026, 5, 4, 9, 30, tzinfo=UTC)
    return Event(
        id="ev-1", at=at, entity="node", entity_id="node-1", version=2, name=name, title=title, changes={}
    )


@pytest.fixture
def feed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server whose feed has an event of each kind."""

    class Client:
        def send(self, _call: object) -> Page[Event]:
            return Page(items=(told("pool_in", "pooled"), told("renewed", "kept warm")), next=None)

    @contextmanager
    def opened(**_options: Any) -> Iterator[Client]:
        yield Client()

    monkeypatch.setattr(events, "open_client", opened)


@pytest.mark.usefixtures("feed")
def test_renewals_of_warm_nodes_are_shown_on_request_and_always_in_json(tmp_path: Path) -> None:
    terminal = Terminal(tmp_path, {})
    plain = terminal.muster("events")
    assert plain.out.split()[-2:] == ["node-1", "pooled"]
    assert plain.err == "1 renewal of warm nodes not shown: --all\n"
    assert "kept warm" in terminal.muster("events", "--all").out
    assert [each["name"] for each in terminal.muster("events", "-o", "json").lines] == ["pool_in", "renewed"]
