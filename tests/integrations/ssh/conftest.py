from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.integrations.ssh.yard import Yard


@pytest.fixture
async def yard(tmp_path: Path) -> AsyncIterator[Yard]:
    (tmp_path / "data").mkdir()
    yard = Yard(root=tmp_path)
    try:
        yield yard
    finally:
        await yard.close()
