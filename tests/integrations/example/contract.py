"""Run by test_example in a process that has the package: the provider contract, as its author would."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from muster_example_provider.provider import ExampleProvider

from muster.domain.template import TemplateSpec
from muster.testing.provider_contract import (
    CAPACITY,
    INSTALLATION,
    OTHER_INSTALLATION,
    ProviderContract,
    Subject,
)


class TestExampleProvider(ProviderContract):
    @pytest.fixture
    def subject(self, tmp_path: Path) -> Iterator[Subject]:
        def of(installation_id: str) -> Any:
            url = "http://127.0.0.1:9"
            return ExampleProvider(
                tmp_path, installation_id=installation_id, servers=[url], capacity=CAPACITY
            )

        def write(machine_id: str, text: str) -> None:
            with (tmp_path / INSTALLATION / machine_id / "console").open("a") as console:
                console.write(text)

        provider, neighbour = of(INSTALLATION), of(OTHER_INSTALLATION)
        spec = TemplateSpec(name="work", provider="example")
        yield Subject(provider=provider, neighbour=neighbour, write=write, template=spec)
        for each in (provider, neighbour):
            asyncio.run(each.terminate([path.parent.name for path in each.root.glob("*/pid")]))
