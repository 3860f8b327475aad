"""The example in Python, held to the contract of all providers."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from muster.domain.template import TemplateSpec
from muster.testing.provider_contract import (
    CAPACITY,
    INSTALLATION,
    OTHER_INSTALLATION,
    ProviderContract,
    Subject,
)
from tests.integrations.command.place import EXAMPLES, end_processes, provider_of, settings


class TestExecutable(ProviderContract):
    @pytest.fixture
    def subject(self, tmp_path: Path) -> Iterator[Subject]:
        config = settings(
            EXAMPLES / "processes.py", {"directory": str(tmp_path), "capacity": CAPACITY}, calls_at_once=8
        )

        def write(machine_id: str, text: str) -> None:
            with (tmp_path / machine_id / "console").open("a") as console:
                console.write(text)

        yield Subject(
            provider=provider_of(config, INSTALLATION),
            neighbour=provider_of(config, OTHER_INSTALLATION),
            write=write,
            template=TemplateSpec(name="work", provider=config.provider),
        )
        end_processes(tmp_path)
