from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.integrations.ssh.lab import Lab


@pytest.fixture
async def lab(tmp_path: Path) -> AsyncIterator[Lab]:
    (tmp_path / "data").mkdir()
    lab = Lab(root=tmp_path)
    try:
        yield lab
    finally:
        await lab.close()
