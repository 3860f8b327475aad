"""Errors, named by what the caller does next.

Owns the one error tree. Adapters translate foreign errors into it once, with `from`; no other code
classifies by message text. Messages say what could not be done, why, and what to do.
"""

from muster.domain.reasons import Reason
from muster.domain.text import counted

_LISTED = 20
"""Ids that a sentence names; all of them are beside it."""


class MusterError(Exception):
    """Anything Muster raises on purpose."""

    @property
    def public(self) -> str:
        """Return the part that a caller may read. The whole message is for the log."""
        return str(self)


# --- tell the user -------------------------------------------------------------------------------


class InvalidRequest(MusterError):
    """What was asked can never work as asked: names the field, the value and the rule."""

    def __init__(self, field: str, value: object, rule: str) -> None:
        self.field = field
        self.value = value
        self.rule = rule
        super().__init__(f"cannot accept {field} = {_shown(value)}: {rule}")


class CursorLost(InvalidRequest):
    """The place in the feed belongs to a history that the store doesn't have: begin anew."""

    def __init__(self, cursor: str) -> None:
        super().__init__(
            "cursor",
            cursor,
            "its event is not in this store, which was restored or replaced; start again without a cursor",
        )


class IdempotencyMismatch(InvalidRequest):
    """The idempotency key was used before, with another body."""

    def __init__(self, key: str, operation_id: str) -> None:
        self.operation_id = operation_id
        super().__init__(
            "idempotency_key",
            key,
            f"already used by {operation_id} for a different request; choose a new key",
        )


class NotFound(MusterError):
    """No such thing (any more)."""

    def __init__(self, what: str, name: str) -> None:
        self.what = what
        self.name = name
        super().__init__(f"cannot find {what} {_shown(name)}")


class NoDiagnosis(MusterError):
    """Nothing was collected about a node; says why, and whether to ask again."""


class Forbidden(MusterError):
    """The caller proved who it is, and that isn't enough."""


class Unproven(MusterError):
    """The caller's proof of who it is can't be accepted."""


class Ambiguous(MusterError):
    """A run id that had several provisions; carries them so that the caller can name one."""

    def __init__(self, run: str, operation_ids: tuple[str, ...]) -> None:
        self.run = run
        self.operation_ids = operation_ids
        listed = ", ".join(operation_ids[:_LISTED])
        more = len(operation_ids) - _LISTED
        rest = f" and {more} more" if more > 0 else ""
        super().__init__(f"run {_shown(run)} has several provisions: name one of {listed}{rest}")


class ClusterExists(MusterError):
    """There is a cluster of that name; the message says in what state, and what to do."""

    def __init__(self, name: str, state: str, message: str) -> None:
        self.name = name
        self.state = state
        super().__init__(message)


class NotCancellable(MusterError):
    """The operation can't be cancelled (any more); the message says what to do instead."""


# --- re-read, decide again -----------------------------------------------------------------------


class Conflict(MusterError):
    """The world moved between the read and the guarded write. Nothing was written."""


class LeaseLost(Conflict):
    """The writer's lease was taken over (its epoch is old). Stop driving this operation."""


class Paused(Conflict):
    """An operator paused the template, or everything. Wait until it is resumed."""

    def __init__(self, template: str) -> None:
        super().__init__(f"cannot take or launch nodes of {template}: an operator paused it; resume it first")


class CapReached(MusterError):
    """A launch doesn't fit under a cap. Nothing was reserved."""

    def __init__(self, *, scope: str, used: int, cap: int, wanted: int) -> None:
        self.scope = scope
        self.used = used
        self.cap = cap
        self.wanted = wanted
        super().__init__(
            f"cannot launch {counted(wanted, 'node')}: {scope.replace('/', ' ')} uses {used} of {cap}"
        )

    @property
    def short_by(self) -> int:
        return self.used + self.wanted - self.cap


class QueueFull(MusterError):
    """An owner has as many operations waiting as it may. Nothing was accepted."""

    def __init__(self, owner: str, cap: int) -> None:
        self.owner = owner
        self.cap = cap
        super().__init__(
            f"cannot queue another operation of {owner}: {cap} of its operations wait already; "
            "send it again when fewer wait, or cancel some"
        )


class TooManyShells(MusterError):
    """As many shells are open as may be. Nothing was started."""

    def __init__(self, where: str, cap: int) -> None:
        self.where = where
        self.cap = cap
        super().__init__(
            f"cannot open another shell: {where} has {cap} open, and that is the most; close one, or raise"
            " the limit in [shells]"
        )


# --- a bug ---------------------------------------------------------------------------------------


class IllegalTransition(MusterError):
    """A change that the lifecycle table doesn't allow. Never caught: it is a bug in the caller."""


# --- leave it alone, and say so -------------------------------------------------------------------


class Implausible(MusterError):
    """Records and world differ by more than an accident explains. Nothing was touched: a person must look."""


# --- back off ------------------------------------------------------------------------------------


class StoreUnavailable(MusterError):
    """The store can't be reached or didn't answer. The write may or may not have happened.

    The message says where the store is, and that is for the log alone: without a store no caller can be
    recognised. `why` is the part that names no address, user or table.
    """

    def __init__(self, message: str, *, why: str = "it does not answer") -> None:
        self.why = why
        super().__init__(message)

    @property
    def public(self) -> str:
        return f"cannot use the store: {self.why}; the server's log has more"


class StoreFull(StoreUnavailable):
    """There is room for the end of what was begun, and for nothing new."""


class NotYet(MusterError):
    """Right question, too early: ask again after `retry_after` seconds."""

    def __init__(self, message: str, retry_after: float) -> None:
        self.retry_after = retry_after
        super().__init__(message)


class Gone(MusterError):
    """The node's time here is over: it stops (and powers off, if it is a machine of ours)."""


class Lost(Gone):
    """The app was given up without a request of an operator: it enrols again."""


class Removed(Gone):
    """An operator removed the app: it may not enrol again."""


# --- what a provider says ------------------------------------------------------------------------


class ProviderError(MusterError):
    """A provider call failed. Subclasses say what is known about machines."""

    reason: Reason = Reason.PROVIDER_ERROR


class Throttled(ProviderError):
    """Nothing was made; ask again after `retry_after` seconds."""

    def __init__(self, message: str, retry_after: float) -> None:
        self.retry_after = retry_after
        super().__init__(message)


class Refused(ProviderError):
    """Nothing was made and asking again won't help: quota, permission, bad parameters, no capacity."""

    def __init__(self, message: str, reason: Reason) -> None:
        self.reason = reason
        super().__init__(message)


class Uncertain(ProviderError):
    """The answer is unknown: the call may have happened. Repeat it with the same token, or find by token."""


class TokenSpent(ProviderError):
    """The provider knows this token with other parameters: so the call did happen. Find by token."""


_SHOWN = 80


def _shown(value: object) -> str:
    try:
        text = repr(value)
    except ValueError:
        # Python refuses to write out integers of thousands of digits.
        text = f"<{type(value).__name__} too long to show>"
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "…"
