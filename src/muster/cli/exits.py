"""Map errors and outcomes to exit codes.

0 ok · 1 failed · 2 usage (the request was wrong) · 3 no capacity · 124 timeout · 130 Ctrl-C
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from muster.domain.codes import Exit, help_for
from muster.domain.errors import (
    Ambiguous,
    CapReached,
    ClusterExists,
    Forbidden,
    InvalidRequest,
    MusterError,
    NoDiagnosis,
    NotCancellable,
    NotFound,
    QueueFull,
    TooManyShells,
)
from muster.domain.reasons import Reason

if TYPE_CHECKING:
    from muster.wire.operations import Failure, Progress

OK, FAILED, USAGE, NO_CAPACITY = Exit.OK, Exit.FAILED, Exit.USAGE, Exit.NO_CAPACITY
TIMEOUT, INTERRUPTED = Exit.TIMEOUT, Exit.INTERRUPTED
_NO_ROOM = (Reason.CAPACITY, Reason.QUOTA, Reason.CAP_REACHED, Reason.ABOVE_CAP)
_TOO_LATE = (Reason.DEADLINE_EXCEEDED, Reason.MAX_RUNTIME)
_CALLER_STATUS = range(400, 500)


class UsageProblem(MusterError):
    """What was typed can't work on this machine: a port in use, a directory that is held, a file missing."""


class OperationFailed(MusterError):
    """An operation ended, and not as it should."""

    def __init__(self, progress: "Progress", code: int | None = None) -> None:
        self.progress = progress
        self.code = code_of_operation(progress) if code is None else code
        super().__init__(_told(progress))


class Misspelt(NotFound):
    """There is no such name, but one that is nearly the same."""

    def __init__(self, what: str, name: str, nearest: str) -> None:
        super().__init__(what, name)
        self.nearest = nearest


class SeveralProvisions(Ambiguous):
    """A run that is to be released had several provisions, and the newest may be meant."""


class OutOfPatience(MusterError):
    """The client doesn't wait any longer; the work goes on."""


class Detached(MusterError):
    """Ctrl-C: the client leaves; the work goes on."""


Kinds = Sequence[tuple[type[MusterError], str, int]]
_KINDS: Kinds = (
    (OutOfPatience, "wait_over", TIMEOUT),
    (Detached, "detached", INTERRUPTED),
    (UsageProblem, "usage", USAGE),
    (InvalidRequest, "invalid_request", USAGE),
    (NotFound, "not_found", USAGE),
    (NoDiagnosis, "no_diagnosis", USAGE),
    (Forbidden, "forbidden", USAGE),
    (Ambiguous, "ambiguous", USAGE),
    (ClusterExists, "cluster_exists", USAGE),
    (NotCancellable, "not_cancellable", USAGE),
    (CapReached, "cap_reached", NO_CAPACITY),
    (QueueFull, "queue_full", NO_CAPACITY),
    (TooManyShells, "too_many_shells", NO_CAPACITY),
)
"""The word for scripts and the exit code of each error."""


def _judged(error: MusterError) -> tuple[str, int]:
    return _entry(error, _KINDS) or _judged_by_client(error)


def _entry(error: MusterError, kinds: Kinds) -> tuple[str, int] | None:
    return next(((name, code) for kind, name, code in kinds if isinstance(error, kind)), None)


def _judged_by_client(error: MusterError) -> tuple[str, int]:
    from muster import client
    from muster.config.contexts import ContextError

    kinds: Kinds = (
        (client.UnusableAddress, "usage", USAGE),
        (client.UnusableCertificate, "usage", USAGE),
        (ContextError, "usage", USAGE),
        (client.Untrusted, "untrusted", FAILED),
        (client.CannotReach, "unreachable", FAILED),
        (client.Unauthenticated, "unauthenticated", USAGE),
    )
    if not isinstance(error, client.ServerProblem):
        return _entry(error, kinds) or ("failed", FAILED)
    if error.code in _NO_ROOM:
        return error.code, NO_CAPACITY
    return error.code, USAGE if error.status in _CALLER_STATUS else FAILED


def code_of(error: MusterError) -> int:
    return error.code if isinstance(error, OperationFailed) else _judged(error)[1]


def code_of_operation(progress: "Progress") -> int:
    from muster.domain.operation import Status

    if progress.status is Status.SUCCEEDED:
        return OK
    reason = progress.error.reason if progress.error is not None else None
    if reason in _NO_ROOM:
        return NO_CAPACITY
    return TIMEOUT if reason in _TOO_LATE else FAILED


def name_of(error: MusterError) -> str:
    """Return a stable word for scripts."""
    if isinstance(error, OperationFailed):
        found = error.progress.error
        return str(found.code) if found is not None else str(error.progress.status)
    return _judged(error)[0]


def explained_code(error: MusterError) -> str:
    """Return the code under which the error is explained: its reason, if that is known."""
    if isinstance(error, OperationFailed) and error.progress.error is not None:
        return str(error.progress.error.reason)
    return name_of(error)


def help_link(code: str) -> str:
    """Return where a code is explained: on the server that was asked, or in the documentation."""
    from muster.cli.connection import AskedServer

    away = AskedServer.url is None or code in _AWAY
    return f"docs/codes.md#{code}" if away else f"{AskedServer.url}{help_for(code)}"


_AWAY = ("unreachable", "untrusted")
"""The server that was asked can explain nothing then."""


_LISTS = {
    "template": "templates",
    "node": "nodes",
    "cluster": "clusters",
    "job": "jobs",
    "token": "tokens list",
    "webhook": "webhooks",
    "undelivered message": "webhooks undelivered",
    "message that was given up": "webhooks undelivered",
}


def hint(error: MusterError) -> str:
    """Return where to look up the right name."""
    if isinstance(error, Misspelt):
        return f"; did you mean {error.nearest}?"
    if isinstance(error, SeveralProvisions):
        return ", or take the newest with --latest"
    if name_of(error) == "no_sign_in":
        return ": `muster login URL --token`"
    if not isinstance(error, NotFound):
        return ""
    return f"; see `muster {_LISTS.get(error.what, 'operations')}`"


def _told(progress: "Progress") -> str:
    what = f"{progress.kind} {progress.operation_id}"
    found = progress.error
    if found is None:
        return f"{what} {progress.status}"
    told = found.diagnosis is not None or found.advice in found.message
    advice = "" if told else f"; {found.advice}"
    return f"{what} {progress.status} ({found.code}: {found.reason}): {found.message}{advice}"


def diagnosis(error: MusterError) -> list[str]:
    """Return what is known of the node that failed an operation."""
    return diagnosis_lines(error.progress.error) if isinstance(error, OperationFailed) else []


def diagnosis_lines(found: "Failure | None") -> list[str]:
    """Return the cause, the line that proves it, and the advice."""
    if found is None or found.node_id is None:
        return []
    more = f"more: `muster nodes diagnosis {found.node_id}`"
    if found.diagnosis is None:
        return [more]
    told, proof = found.diagnosis, found.diagnosis.evidence
    shown = [f"{proof.section} line {proof.line}: {proof.text}"] if proof is not None else []
    return [f"cause: {told.cause}: {told.summary}", *shown, f"advice: {told.advice}", more]
