from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.integrations.kvm.lab import Lab


@pytest.fixture
async def lab(tmp_path: Path) -> AsyncIterator[Lab]:
    (tmp_path / "data").mkdir()
    lab = Lab(tmp_path / "data" / "nodes")
    await lab.open()
    try:
        yield lab
    finally:
        await lab.close()
