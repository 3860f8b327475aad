from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.integrations.process.yard import Desk, Yard


@pytest.fixture
async def yard(tmp_path: Path) -> AsyncIterator[Yard]:
    desk = Desk()
    await desk.open()
    yard = Yard(tmp_path / "data" / "nodes", desk)
    try:
        yield yard
    finally:
        yard.sweep()
        await desk.close()
