"""Call AWS through the SDK, at a bounded rate. Only this module knows the SDK.

Errors leave as AwsError, NoAnswer or NotAsked. Nothing is repeated here: only the caller knows whether a
repeat is the same question.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack
from functools import cache
from typing import Any

from muster.aws import verifies
from muster.domain.backoff import backoff, spread
from muster.domain.errors import MusterError
from muster.integrations.ec2.errors import HELD, AwsError, NoAnswer, NotAsked, throttles
from muster.integrations.ec2.tables import Ec2Settings
from muster.ports.clock import Clock
from muster.ports.ids import Ids

FIRST = 1.0
MOST = 30.0


class RateLimiter:
    """A bounded rate for calls of one kind, and a pause for all of them when AWS throttles."""

    def __init__(self, clock: Clock, jitter: Callable[[], float], *, per_second: float) -> None:
        self._clock = clock
        self._jitter = jitter
        self._apart = 1.0 / per_second
        self._free_at = 0.0
        self._throttled = 0
        self._queue = asyncio.Lock()

    async def turn(self) -> None:
        """Wait for the caller's turn, in the order of asking. A caller that gives up uses none up."""
        async with self._queue:
            while True:
                now = self._clock.now()
                # A clock that was set back must not delay a caller for longer than a pause.
                self._free_at = min(self._free_at, now + MOST)
                if now >= self._free_at:
                    break
                await self._clock.sleep(self._free_at - now)
            self._free_at = now + self._apart

    @property
    def held(self) -> float:
        """Return the seconds for which AWS's throttling delays every caller."""
        return max(0.0, self._free_at - self._clock.now()) if self._throttled else 0.0

    def throttled(self) -> float:
        """Pause all callers after AWS throttled, longer each time; return the seconds."""
        pause = spread(backoff(self._throttled, first=FIRST, most=MOST), self._jitter())
        self._throttled = min(self._throttled + 1, 10)
        self._free_at = max(self._free_at, self._clock.now() + pause)
        return pause

    def answered(self) -> None:
        self._throttled = 0


try:
    from aiobotocore.config import AioConfig
    from aiobotocore.session import AioSession, get_session
    from botocore import exceptions
    from botocore.parsers import ResponseParserError
except ImportError as error:
    raise MusterError(
        "cannot use the provider ec2: its SDK is missing; install it with: pip install 'muster-compute[aws]'"
    ) from error

CONNECT_WITHIN = 5.0
ANSWER_WITHIN = 25.0
CONNECTIONS = 20
WAIT_MOST = 5.0
HTTP_UNAVAILABLE = 503
_BEFORE_ASKING = (
    exceptions.CredentialRetrievalError,
    exceptions.NoCredentialsError,
    exceptions.ParamValidationError,
    exceptions.PartialCredentialsError,
)


class Aws:
    def __init__(self, settings: Ec2Settings, clock: Clock, ids: Ids) -> None:
        self._settings = settings
        self._stack = AsyncExitStack()
        self._clients: dict[str, Any] = {}
        self._opening = asyncio.Lock()
        self.reads = RateLimiter(clock, ids.jitter, per_second=settings.reads_per_second)
        self.writes = RateLimiter(clock, ids.jitter, per_second=settings.writes_per_second)
        # Apart: there may be many consoles, and a look at machines must not queue behind them.
        self._consoles = RateLimiter(clock, ids.jitter, per_second=settings.reads_per_second)

    async def open(self) -> None:
        for service in ("ec2", "sts"):
            await self._client(service)

    async def close(self) -> None:
        await self._stack.aclose()
        self._clients.clear()

    async def read(self, verb: str, *, service: str = "ec2", **given: Any) -> Mapping[str, Any]:
        await self.turn(self.reads)
        return await self.call(verb, self.reads, service=service, **given)

    async def hear(self, verb: str, **given: Any) -> Mapping[str, Any]:
        await self.turn(self._consoles)
        return await self.call(verb, self._consoles, **given)

    async def write(self, verb: str, **given: Any) -> Mapping[str, Any]:
        await self.turn(self.writes)
        return await self.call(verb, self.writes, **given)

    async def turn(self, pacer: RateLimiter) -> None:
        """Wait for a turn, or raise if that would take long: then nothing was asked and nothing is
        unknown."""
        if pacer.held > WAIT_MOST:
            text = "AWS throttled earlier calls; this one was not made"
            raise AwsError(HELD, text, HTTP_UNAVAILABLE, pause=pacer.held)
        await pacer.turn()

    async def pages(self, verb: str, **given: Any) -> AsyncIterator[Mapping[str, Any]]:
        token: str | None = None
        while True:
            more = {"NextToken": token} if token else {}
            page = await self.read(verb, **given, **more)
            yield page
            token = page.get("NextToken")
            if not token:
                return

    async def call(
        self, verb: str, pacer: RateLimiter, *, service: str = "ec2", **given: Any
    ) -> Mapping[str, Any]:
        """Call without waiting for a turn."""
        try:
            client = await self._client(service)
            answer: Mapping[str, Any] = await getattr(client, verb)(**given)
        except exceptions.ClientError as error:
            known = _of_client_error(error)
            if throttles(known):
                known.pause = pacer.throttled()
            raise known from error
        except _BEFORE_ASKING as error:
            raise NotAsked(str(error)) from error
        except ResponseParserError as error:
            # A page of a proxy's, most likely; whether AWS heard isn't known.
            raise NoAnswer(f"the answer is no answer of AWS's ({str(error).partition(':')[0]})") from error
        except (exceptions.BotoCoreError, exceptions.HTTPClientError, TimeoutError, OSError) as error:
            raise NoAnswer(str(error) or type(error).__name__) from error
        pacer.answered()
        return answer

    async def _client(self, service: str) -> Any:
        async with self._opening:
            if service not in self._clients:
                opened = _session().create_client(
                    service,
                    region_name=self._settings.region,
                    endpoint_url=self._settings.endpoint_url,
                    verify=verifies(self._settings.endpoint_url),
                    config=AioConfig(
                        connect_timeout=CONNECT_WITHIN,
                        read_timeout=ANSWER_WITHIN,
                        max_pool_connections=CONNECTIONS,
                        retries={"total_max_attempts": 1},
                    ),
                )
                self._clients[service] = await self._stack.enter_async_context(opened)
            return self._clients[service]


@cache
def _session() -> AioSession:
    """Return one session for the process: the description of EC2 is large, and read once."""
    return get_session()


def _of_client_error(error: Any) -> AwsError:
    said = error.response.get("Error", {})
    status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
    return AwsError(str(said.get("Code", "")), str(said.get("Message", "")), int(status))
