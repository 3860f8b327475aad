import asyncio
import json
import sys

from tests.api.site import Site


async def test_the_tool_prints_the_document_that_the_server_serves(site: Site) -> None:
    tool = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tools.openapi", stdout=asyncio.subprocess.PIPE
    )
    printed, _ = await tool.communicate()
    assert json.loads(printed) == (await site.http("").get("/api/v1/openapi.json")).json()
