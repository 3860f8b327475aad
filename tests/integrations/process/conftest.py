from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.integrations.process.lab import Desk, Lab


@pytest.fixture
async def lab(tmp_path: Path) -> AsyncIterator[Lab]:
    desk = Desk()
    await desk.open()
    lab = Lab(tmp_path / "data" / "nodes", desk)
    try:
        yield lab
    finally:
        lab.sweep()
        await desk.close()
