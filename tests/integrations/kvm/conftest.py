from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.integrations.kvm.yard import Yard


@pytest.fixture
async def yard(tmp_path: Path) -> AsyncIterator[Yard]:
    (tmp_path / "data").mkdir()
    yard = Yard(tmp_path / "data" / "nodes")
    await yard.open()
    try:
        yield yard
    finally:
        await yard.close()
