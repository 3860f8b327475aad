from collections.abc import AsyncIterator
from pathlib import Path

import pytest_asyncio

from tests.api.signing import SignIn, signing
from tests.api.site import Site, opened


@pytest_asyncio.fixture
async def site(tmp_path: Path) -> AsyncIterator[Site]:
    async with opened(tmp_path) as site:
        await site.template()
        yield site


@pytest_asyncio.fixture
async def sign_in(tmp_path: Path) -> AsyncIterator[SignIn]:
    async with signing(tmp_path) as server:
        yield server
