"""The only HTTP client: the CLI, the SDK and the tests use nothing else.

    calls         every call as a value: a request, and the shape of `muster.wire` that answers it
    problems      errors, as the classes that the server raised
    streams       server-sent events, and where to go on after a lost connection
    reconnects    how long a lost connection is tried again, and who is told
    sync_client   performs calls, blocking
    http          addresses, headers, timeouts, and the reading of answers

Each call is described once: `client.send(calls.provision(…))`.
"""

from muster.client import calls
from muster.client.problems import (
    CannotReach,
    ServerProblem,
    Unauthenticated,
    Untrusted,
    UnusableAddress,
    UnusableCertificate,
)
from muster.client.sync_client import SyncClient

__all__ = [
    "CannotReach",
    "ServerProblem",
    "SyncClient",
    "Unauthenticated",
    "Untrusted",
    "UnusableAddress",
    "UnusableCertificate",
    "calls",
]
