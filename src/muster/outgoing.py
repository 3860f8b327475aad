"""Send small bodies to one address that an operator set, and learn no more than the answer's status.

The connection is kept for the next body. Redirects are never followed: they could lead a body anywhere.
"""

import asyncio
from collections.abc import Mapping
from contextlib import suppress

import httpx

from muster.domain.errors import MusterError

ANSWER_WITHIN = 15.0
"""Seconds for the whole exchange."""
READ_MOST, READ_WITHIN = 4096, 1.0
"""Bytes and seconds for the rest of an answer. A longer or slower one costs its connection alone."""


class NoAnswer(MusterError):
    """The address can't be reached, says nothing in time, or can be no host's."""


class Outgoing:
    def __init__(
        self, url: str, headers: Mapping[str, str], transport: httpx.AsyncBaseTransport | None = None
    ) -> None:
        self._url = url
        self._http = httpx.AsyncClient(
            headers=headers,
            timeout=ANSWER_WITHIN,
            follow_redirects=False,
            trust_env=False,
            transport=transport,
        )

    async def post(self, body: bytes, headers: Mapping[str, str] | None = None) -> httpx.Response:
        """Return the answer without its body. Raises NoAnswer."""
        try:
            async with (
                asyncio.timeout(ANSWER_WITHIN),
                self._http.stream("POST", self._url, content=body, headers=headers) as response,
            ):
                await _read_out(response)
                return response
        except (httpx.HTTPError, httpx.InvalidURL, UnicodeError, TimeoutError) as error:
            raise NoAnswer(str(error) or type(error).__name__) from error

    async def close(self) -> None:
        await self._http.aclose()


async def _read_out(response: httpx.Response) -> None:
    """Read the rest of a short answer: only then can its connection serve again. What it says is dropped."""
    read = 0
    with suppress(httpx.HTTPError, TimeoutError):
        async with asyncio.timeout(READ_WITHIN):
            async for chunk in response.aiter_raw():
                read += len(chunk)
                if read > READ_MOST:
                    return
