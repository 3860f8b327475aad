"""The only HTTP client: the CLI, the SDK and the tests use nothing else.

    calls     what can be asked, as values: a request, and which shape of `muster.wire` answers it
    problems  errors, as the classes that the server raised
    streams   server-sent events, and how to take them up again after a break
    breaks    for how long that is tried, and who hears of it
    sync      performs calls, blocking       aio  performs the same calls, awaiting

There is one description of each call and no second copy of it: `client.send(calls.provision(…))`, with or
without `await`.
"""

from muster.client import calls
from muster.client.aio import AsyncClient
from muster.client.problems import CannotReach, ServerProblem, Unauthenticated, UnusableAddress
from muster.client.sync import SyncClient

__all__ = [
    "AsyncClient",
    "CannotReach",
    "ServerProblem",
    "SyncClient",
    "Unauthenticated",
    "UnusableAddress",
    "calls",
]
