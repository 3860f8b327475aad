"""The shapes of Muster's protocol for executables, version 1. docs/provider-protocol.md explains them.

Unknown fields of an answer are ignored, unknown words of a set are an error. `muster provider schema`
prints the JSON Schema of these structs.
"""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from muster.domain.serialization import Plain

PROTOCOL = 1
BAD_REQUEST, BAD_CONFIG = 64, 78
"""Exit statuses of sysexits(3) that say: nothing was done, and asking again is of no use."""

Id = Annotated[
    str, Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.:/@-]{0,127}$", description="the machine's own id")
]
Name = Annotated[str, Meta(pattern=r"^[a-z][a-z0-9-]{0,62}$")]
Words = Annotated[str, Meta(max_length=4096)]
Seconds = Annotated[float, Meta(ge=0, le=3600)]


class Verb(StrEnum):
    HELLO = "hello"
    LAUNCH = "launch"
    LIST = "list"
    DESCRIBE = "describe"
    CONSOLE = "console"
    TERMINATE = "terminate"


class Feature(StrEnum):
    IDEMPOTENT = "idempotent"
    """The same launch again makes nothing new and gives the same answer."""
    BATCH = "batch"
    """A launch may be for several machines."""
    CONSOLE = "console"
    SPOT = "spot"


class MachineIs(StrEnum):
    PENDING = "pending"
    RUNNING = "running"
    STOPPING = "stopping"
    GONE = "gone"


class Usage(StrEnum):
    ON_DEMAND = "on-demand"
    SPOT = "spot"


class Short(StrEnum):
    """Why a launch gave fewer machines than asked for, or none."""

    CAPACITY = "capacity"
    QUOTA = "quota"
    THROTTLED = "throttled"
    REFUSED = "refused"
    ERROR = "error"


class ErrorClass(StrEnum):
    THROTTLED = "throttled"
    """Nothing was done. Ask again after `retry_after` seconds."""
    REFUSED = "refused"
    """Nothing was done. Asking again is of no use."""
    LAUNCH_SPENT = "launch_spent"
    """The launch was asked for before, with another fingerprint."""
    UNCERTAIN = "uncertain"
    """It is unknown what was done."""


class Shape(msgspec.Struct, frozen=True, kw_only=True):
    """A shape of the protocol."""


# --- requests ------------------------------------------------------------------------------------


class Asked(Shape, frozen=True, kw_only=True):
    """What every request has."""

    protocol: Literal[1] = 1
    installation: str
    timeout_seconds: float
    """Muster ends the call after this time."""
    config: Mapping[str, Any]
    """The table [command.NAME.config] of the server's settings."""


class AskedTemplate(Shape, frozen=True, kw_only=True):
    name: str
    revision: int
    settings: Mapping[str, Any]
    """The table [templates.NAME.command.settings]."""


class AskedClass(Shape, frozen=True, kw_only=True):
    name: str
    cpu: int
    memory_mib: int


class AskedMachine(Shape, frozen=True, kw_only=True):
    name: Name
    """The same when the launch is repeated, and never used for another machine."""
    user_data: str
    """The bash script that the machine runs once, as root, at its first boot. Holds a secret."""


class Launch(Asked, frozen=True, kw_only=True):
    launch: str
    """The prefix of the names of its machines."""
    fingerprint: str
    """Of all that is asked for. The same launch with another fingerprint is `launch_spent`."""
    template: AskedTemplate
    resource_class: AskedClass
    usage: Usage
    types: Sequence[str]
    """Types that fit and are allowed, if `hello` names types."""
    machines: Sequence[AskedMachine]


class List(Asked, frozen=True, kw_only=True):
    prefix: str
    """Of the names of the machines that are meant: those of the installation, or of one launch."""
    cursor: str | None = None


class Describe(Asked, frozen=True, kw_only=True):
    ids: Sequence[str]


class Console(Asked, frozen=True, kw_only=True):
    id: str
    lines: int


class Terminate(Asked, frozen=True, kw_only=True):
    ids: Sequence[str]


# --- answers -------------------------------------------------------------------------------------


class Type(Shape, frozen=True, kw_only=True):
    name: Annotated[str, Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$")]
    resource_class: str
    """The class that machines of this type are for."""


class Hello(Shape, frozen=True, kw_only=True):
    protocols: Sequence[int]
    name: Words
    version: Words = ""
    features: Sequence[Feature] = ()
    visibility_window: Seconds = 300.0
    """How long a machine that exists may be missing from an answer."""
    call_timeout: Annotated[float, Meta(ge=1, le=3600)] = 60.0
    types: Sequence[Type] = ()


class MachineSeen(Shape, frozen=True, kw_only=True):
    id: Id
    name: Name
    state: MachineIs
    type: str = ""
    usage: Usage = Usage.ON_DEMAND
    why: Words = ""
    """Why it is gone, in words for people."""


class Failure(Shape, frozen=True, kw_only=True):
    error_class: ErrorClass = msgspec.field(name="class")
    message: Words
    reason: Short = Short.REFUSED
    retry_after: Seconds = 5.0


class Failed(Shape, frozen=True, kw_only=True):
    """The answer to a verb that could not be done."""

    error: Failure | None = None


class Launched(Shape, frozen=True, kw_only=True):
    machines: Sequence[MachineSeen]
    reason: Short | None = None
    """Why there are fewer machines than asked for."""
    message: Words = ""


class Machines(Shape, frozen=True, kw_only=True):
    machines: Sequence[MachineSeen]
    cursor: str | None = None
    """Of `list`: where the next page begins."""


class ConsoleText(Shape, frozen=True, kw_only=True):
    text: str | None


class Done(Shape, frozen=True, kw_only=True):
    """Nothing to say: `{}`."""


REQUESTS: Mapping[Verb, type[Asked]] = {
    Verb.HELLO: Asked,
    Verb.LAUNCH: Launch,
    Verb.LIST: List,
    Verb.DESCRIBE: Describe,
    Verb.CONSOLE: Console,
    Verb.TERMINATE: Terminate,
}
ANSWERS: Mapping[Verb, type[Shape]] = {
    Verb.HELLO: Hello,
    Verb.LAUNCH: Launched,
    Verb.LIST: Machines,
    Verb.DESCRIBE: Machines,
    Verb.CONSOLE: ConsoleText,
    Verb.TERMINATE: Done,
}


def schema() -> Mapping[str, Plain]:
    """Return the JSON Schema of all requests and answers, by verb."""
    shapes = [Failed, *REQUESTS.values(), *ANSWERS.values()]
    (failed, *named), parts = msgspec.json.schema_components(shapes)
    requests, answers = named[: len(REQUESTS)], named[len(REQUESTS) :]
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"Muster's protocol for providers, version {PROTOCOL}",
        "verbs": {
            verb: {"request": request, "answer": {"anyOf": [answer, failed]}}
            for verb, request, answer in zip(REQUESTS, requests, answers, strict=True)
        },
        "$defs": parts,
    }
