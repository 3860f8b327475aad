"""List every code of Muster with its cause and its cure, for `docs/codes.md` and `/codes`.

Owns the texts for failed operations, refused requests and exits. `domain.reasons` owns the reasons; their
cure is the advice of every message.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum, StrEnum

from muster.domain.operation import Kind, Status
from muster.domain.reasons import ADVICE, Reason

PAGE = "/codes"
"""The path of the page on a server. A code is its own anchor."""


class FailureCode(StrEnum):
    """The `code` of a failed or cancelled operation. Its `reason` says why."""

    PROVISION_FAILED = "provision_failed"
    RELEASE_FAILED = "release_failed"
    REFILL_FAILED = "refill_failed"
    RUN_FAILED = "run_failed"
    CLUSTER_CREATE_FAILED = "cluster_create_failed"
    CLUSTER_DELETE_FAILED = "cluster_delete_failed"
    OPERATION_CANCELLED = "operation_cancelled"


class ProblemCode(StrEnum):
    """The `code` of a problem+json answer: why the request was refused."""

    INVALID_REQUEST = "invalid_request"
    MALFORMED_JSON = "malformed_json"
    MALFORMED_BODY = "malformed_body"
    MALFORMED_REQUEST = "malformed_request"
    UNSUPPORTED_MEDIA_TYPE = "unsupported_media_type"
    QUERY_TOO_LONG = "query_too_long"
    HEAD_TOO_LARGE = "head_too_large"
    TOO_LARGE = "too_large"
    TOO_SLOW = "too_slow"
    METHOD_NOT_ALLOWED = "method_not_allowed"
    UNAUTHENTICATED = "unauthenticated"
    FORBIDDEN = "forbidden"
    NO_SIGN_IN = "no_sign_in"
    AUTHORIZATION_PENDING = "authorization_pending"
    ACCESS_DENIED = "access_denied"
    EXPIRED_TOKEN = "expired_token"  # noqa: S105 — a word of RFC 8628
    NOT_FOUND = "not_found"
    NO_DIAGNOSIS = "no_diagnosis"
    NOT_KEPT = "not_kept"
    IDEMPOTENCY_MISMATCH = "idempotency_mismatch"
    AMBIGUOUS = "ambiguous"
    CLUSTER_EXISTS = "cluster_exists"
    NOT_CANCELLABLE = "not_cancellable"
    QUEUE_FULL = "queue_full"
    TOO_MANY_SHELLS = "too_many_shells"
    CAP_REACHED = "cap_reached"
    CONFLICT = "conflict"
    CURSOR_LOST = "cursor_lost"
    GONE = "gone"
    LOST = "lost"
    REMOVED = "removed"
    NOT_YET = "not_yet"
    NOT_READY = "not_ready"
    THROTTLED = "throttled"
    STORE_UNAVAILABLE = "store_unavailable"
    STORAGE_FULL = "storage_full"
    PROVIDER_ERROR = "provider_error"
    INTERNAL = "internal"


class ClientCode(StrEnum):
    """The `code` of an error in JSON that the command line itself found."""

    USAGE = "usage"
    UNREACHABLE = "unreachable"
    UNTRUSTED = "untrusted"
    WAIT_OVER = "wait_over"
    DETACHED = "detached"
    FAILED = "failed"
    UNKNOWN = "unknown"


class Exit(IntEnum):
    OK = 0
    FAILED = 1
    USAGE = 2
    NO_CAPACITY = 3
    TIMEOUT = 124
    LOST = 125
    SIGNALLED = 128
    INTERRUPTED = 130


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    code: str
    cause: str
    cure: str


def failure_code(kind: Kind, status: Status) -> FailureCode:
    cancelled = status is Status.CANCELLED
    return FailureCode.OPERATION_CANCELLED if cancelled else FailureCode(f"{kind}_failed")


def help_for(code: str) -> str:
    """Return the path of the code's explanation on the server."""
    return f"{PAGE}#{code}"


_SEE_REASON = "Follow the row of its `reason` below."
FAILURES: Mapping[FailureCode, tuple[str, str]] = {
    FailureCode.PROVISION_FAILED: (
        "The nodes were not handed over. Everything made for them was given back.",
        _SEE_REASON,
    ),
    FailureCode.RELEASE_FAILED: (
        "Some nodes did not come back in time.",
        "Nothing: Muster terminates them, and the pool makes new ones.",
    ),
    FailureCode.REFILL_FAILED: ("Warm nodes could not be made.", f"{_SEE_REASON} The pool tries again."),
    FailureCode.RUN_FAILED: (
        "A command exited non-zero or was lost, or there were no nodes for the run.",
        f"{_SEE_REASON} `muster logs OPERATION` has the output.",
    ),
    FailureCode.CLUSTER_CREATE_FAILED: (
        "The cluster was not created. Its resources were removed.",
        _SEE_REASON,
    ),
    FailureCode.CLUSTER_DELETE_FAILED: (
        "The cluster, or a part of it, still exists.",
        f"{_SEE_REASON} Then delete it again.",
    ),
    FailureCode.OPERATION_CANCELLED: (
        "An operator or client cancelled the operation.",
        "Ask again, if it is still needed.",
    ),
}

REASONS: Mapping[Reason, str] = {
    Reason.CAPACITY: "The provider has no machines of this kind now.",
    Reason.QUOTA: "The account's quota is used up.",
    Reason.THROTTLED: "The provider refused calls because there were too many.",
    Reason.CAP_REACHED: "The request does not fit under `max_nodes` now.",
    Reason.ABOVE_CAP: "The request asks for more nodes than a cap allows at all.",
    Reason.SKU_UNAVAILABLE: "The region does not offer the machine size.",
    Reason.PERMISSION: "The server's identity lacks a role.",
    Reason.NAME_TAKEN: "Another resource has the name.",
    Reason.REGION_MISMATCH: "The resource exists in another region.",
    Reason.BOOT_TIMEOUT: "The node did not boot before its deadline.",
    Reason.BOOT_STALLED: "The boot showed no sign of progress for `stall_after`.",
    Reason.BOOT_SCRIPT_FAILED: "The boot script exited non-zero.",
    Reason.ATTACH_FAILED: "The node booted, and did not get ready for its run within `attach_timeout`.",
    Reason.HEARTBEAT_LOST: "The node sent no heartbeat for too long.",
    Reason.MACHINE_GONE: "The machine is gone, and Muster did not terminate it.",
    Reason.PROVIDER_REFUSED: "The provider refused the call. A repeat would be refused too.",
    Reason.PROVIDER_ERROR: "The provider failed, or its answer could not be read.",
    Reason.DEADLINE_EXCEEDED: "The operation or command did not end before its timeout.",
    Reason.HOLD_OVER: "The node was kept for a look, and that time is over.",
    Reason.MAX_RUNTIME: "The run had its nodes for longer than `max_runtime`.",
    Reason.COMMAND_FAILED: "A command of the run exited non-zero; the message names the codes.",
    Reason.IDLE_TIMEOUT: "The node was idle for `idle_timeout`.",
    Reason.RELEASE_TIMEOUT: "The node did not prove that it was clean in time.",
    Reason.PARTIAL_LAUNCH: "The provider gave fewer machines than Muster asked for.",
    Reason.RETIRED: "The node's template has a newer revision, or was retired.",
    Reason.REUSE: "The template's `reuse` does not allow the node to serve again.",
    Reason.DUPLICATE_JOIN: "A second machine joined as the same node.",
    Reason.ORPHAN: "A machine of this installation had no record.",
    Reason.LEFT: "The app reported that it leaves.",
    Reason.OPERATOR: "An operator did it by hand.",
    Reason.CANCELLED: "The operation was cancelled.",
    Reason.INTERRUPTED: "The provider takes the machine back (e.g. a spot notice).",
    Reason.INTERNAL: "An unforeseen error inside Muster.",
}

PROBLEMS: Mapping[ProblemCode, tuple[str, str]] = {
    ProblemCode.INVALID_REQUEST: (
        "A field has an invalid value.",
        "Change the `field` so that it follows the `rule`.",
    ),
    ProblemCode.MALFORMED_JSON: ("The body is not JSON.", "Send one JSON object."),
    ProblemCode.MALFORMED_BODY: ("The body can't be read.", "Send one JSON object."),
    ProblemCode.MALFORMED_REQUEST: (
        "The request is not HTTP/1.1.",
        "Check the client, or the proxy in front of the server.",
    ),
    ProblemCode.UNSUPPORTED_MEDIA_TYPE: ("The body has another media type.", "Send `application/json`."),
    ProblemCode.QUERY_TOO_LONG: (
        "The query string is too long.",
        "Ask for less at once; follow the `next` cursors.",
    ),
    ProblemCode.HEAD_TOO_LARGE: ("The request's head is too large.", "Send fewer or shorter header fields."),
    ProblemCode.TOO_LARGE: ("The body is larger than the limit.", "Send less; files go with `--sync`."),
    ProblemCode.TOO_SLOW: (
        "The request did not arrive in time.",
        "Check the network and send the request again.",
    ),
    ProblemCode.METHOD_NOT_ALLOWED: (
        "The address does not take that method.",
        "`/api/v1/openapi.json` lists the methods.",
    ),
    ProblemCode.UNAUTHENTICATED: (
        "There is no token, or it is no longer valid.",
        "Run `muster login` again, or set MUSTER_TOKEN; admins make tokens with `muster tokens create`.",
    ),
    ProblemCode.FORBIDDEN: (
        "The token's role does not allow it.",
        "Use a token with the role that the detail names.",
    ),
    ProblemCode.NO_SIGN_IN: (
        "The server has no identity provider.",
        "Use a token: `muster login URL --token`. An admin connects a provider as docs/sign-in.md says.",
    ),
    ProblemCode.AUTHORIZATION_PENDING: (
        "The code of `muster login` is not confirmed yet.",
        "Open the page that the terminal shows and confirm the code.",
    ),
    ProblemCode.ACCESS_DENIED: (
        "The person denied the login of the terminal.",
        "Run `muster login` again, and confirm the code on the page.",
    ),
    ProblemCode.EXPIRED_TOKEN: (
        "No person confirmed the code in time.",
        "Run `muster login` again.",
    ),
    ProblemCode.NOT_FOUND: (
        "The name does not exist, or its record was pruned.",
        "Check the name against the list, e.g. `muster nodes`.",
    ),
    ProblemCode.NO_DIAGNOSIS: (
        "Nothing was collected about the node.",
        "The detail says whether to ask again.",
    ),
    ProblemCode.NOT_KEPT: (
        "The upload could not be stored, or came too late.",
        "Send it again; check the server's disk.",
    ),
    ProblemCode.IDEMPOTENCY_MISMATCH: (
        "The idempotency key was used for another request.",
        "Choose a new key for a new request.",
    ),
    ProblemCode.AMBIGUOUS: (
        "The run id had several provisions.",
        "Name one of `operation_ids`, or use `--latest`.",
    ),
    ProblemCode.CLUSTER_EXISTS: (
        "There is a cluster of that name.",
        "Choose another name, or delete that one.",
    ),
    ProblemCode.NOT_CANCELLABLE: (
        "The operation has ended, or its kind always runs to its end.",
        "Follow the detail: release or delete instead.",
    ),
    ProblemCode.QUEUE_FULL: (
        "The owner has too many operations that wait for room.",
        "Cancel some, or ask again when some have started.",
    ),
    ProblemCode.TOO_MANY_SHELLS: (
        "The node or the server has as many open shells as it may have.",
        "Close a shell, or raise `per_node` or `per_server` in `[shells]`.",
    ),
    ProblemCode.CAP_REACHED: (
        "There is no room under a cap.",
        "Raise the cap, release nodes, or wait for room.",
    ),
    ProblemCode.CONFLICT: ("Another writer was first.", "Ask again after `Retry-After`."),
    ProblemCode.CURSOR_LOST: (
        "The store was restored since the cursor was given.",
        "Start again without a cursor.",
    ),
    ProblemCode.GONE: ("The node has ended.", "Provision again; an agent stops."),
    ProblemCode.LOST: (
        "Muster gave the app up because it sent no heartbeats.",
        "The app enrols with a new key.",
    ),
    ProblemCode.REMOVED: ("An operator removed the app.", "The app runs on without Muster."),
    ProblemCode.NOT_YET: ("It is too early.", "Ask again after `Retry-After`."),
    ProblemCode.NOT_READY: (
        "The server starts, stops, or lacks something.",
        "The detail says what is missing.",
    ),
    ProblemCode.THROTTLED: ("The provider throttles the server.", "Ask again after `Retry-After`."),
    ProblemCode.STORE_UNAVAILABLE: (
        "The store does not answer, or is full.",
        "Check the disk or database; the server's log has more. Ask again after `Retry-After`.",
    ),
    ProblemCode.STORAGE_FULL: (
        "The server's disk has no room for the upload.",
        "Free disk space on the server.",
    ),
    ProblemCode.PROVIDER_ERROR: (
        "A call to the provider, or to the service behind the runtime, failed.",
        "Ask again; check its status page.",
    ),
    ProblemCode.INTERNAL: (
        "An unforeseen error inside Muster.",
        "Look for the `problem_id` in the server's log, and report the bug.",
    ),
}

CLIENT: Mapping[ClientCode, tuple[str, str]] = {
    ClientCode.USAGE: ("The arguments are wrong.", "Correct them as the message says; see `--help`."),
    ClientCode.UNREACHABLE: (
        "No server answers at the address.",
        "Start it with `muster serve`, choose another with `muster contexts use`, or set MUSTER_SERVER.",
    ),
    ClientCode.UNTRUSTED: (
        "The server's certificate can't be trusted.",
        "Check the address and the certificate; name your own authority with MUSTER_CA_FILE.",
    ),
    ClientCode.WAIT_OVER: ("`--wait` ran out. The work goes on.", "`muster operations watch OPERATION`"),
    ClientCode.DETACHED: ("Ctrl-C. The work goes on.", "`muster operations watch OPERATION`"),
    ClientCode.FAILED: ("An error on this machine.", "Follow the message."),
    ClientCode.UNKNOWN: (
        "The answer is not Muster's.",
        "Check MUSTER_SERVER and the proxies in front of the server.",
    ),
}

EXITS: Mapping[Exit, tuple[str, str]] = {
    Exit.OK: ("Done.", "Nothing to do."),
    Exit.FAILED: (
        "It failed.",
        "Read the message. Of `run` and `exec`: the worst exit code of the commands.",
    ),
    Exit.USAGE: ("The request was wrong.", "Correct the value, name or token that the message names."),
    Exit.NO_CAPACITY: (
        "There is no capacity: at the provider, in a quota or under a cap.",
        "Try later, or ask for less.",
    ),
    Exit.TIMEOUT: (
        "A deadline passed: `--timeout`, `--max-runtime` or `--wait`.",
        "Give it more time, or see what it waited for: `muster operations why ID`.",
    ),
    Exit.LOST: (
        "The end of a command is unknown: its node was lost.",
        "Run it again; the message names the reason.",
    ),
    Exit.SIGNALLED: (
        "128 + N: a signal N ended the command.",
        "137 is SIGKILL, often caused by a lack of memory.",
    ),
    Exit.INTERRUPTED: ("Ctrl-C. The work goes on.", "The message says how to come back."),
}


def failures() -> list[Entry]:
    return [Entry(code=code, cause=cause, cure=cure) for code, (cause, cure) in FAILURES.items()]


def reasons() -> list[Entry]:
    return [Entry(code=each, cause=REASONS[each], cure=_sentence(ADVICE[each])) for each in Reason]


def problems() -> list[Entry]:
    return [Entry(code=code, cause=cause, cure=cure) for code, (cause, cure) in PROBLEMS.items()]


def client() -> list[Entry]:
    return [Entry(code=code, cause=cause, cure=cure) for code, (cause, cure) in CLIENT.items()]


def exits() -> list[Entry]:
    return [Entry(code=str(int(code)), cause=cause, cure=cure) for code, (cause, cure) in EXITS.items()]


def _sentence(words: str) -> str:
    return words[:1].upper() + words[1:] + ("" if words.endswith(".") else ".")
