"""What goes wrong: a script of faults per call, each used up after so many times."""

from dataclasses import dataclass, field
from enum import StrEnum

from muster.integrations.aks.error_codes import Problem


class Verb(StrEnum):
    GET_GROUP = "get_group"
    PUT_GROUP = "put_group"
    LIST_GROUP = "list_group"
    DELETE_GROUP = "delete_group"
    GET_CLUSTER = "get_cluster"
    LIST_CLUSTERS = "list_clusters"
    PUT_CLUSTER = "put_cluster"
    ABORT = "abort"
    DELETE_CLUSTER = "delete_cluster"
    POLL = "poll"
    PUT_ASSIGNMENT = "put_assignment"
    DELETE_ASSIGNMENT = "delete_assignment"


class ArmError(Exception):
    """An answer that isn't a success."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        super().__init__(f"{problem.status} {problem.code}: {problem.message}")


def error(status: int, code: str, message: str, *, retry_after: float | None = None) -> ArmError:
    return ArmError(Problem(status=status, code=code, message=message, retry_after=retry_after))


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One way for a call to go wrong."""

    on: Verb
    problem: Problem | None = None
    """Answered instead of doing it."""
    hangs: float = 0.0
    """Seconds until the answer, whatever it is."""
    loses: bool = False
    """It is done, and the answer is lost."""
    skip: int = 0
    """So many calls go well first."""
    times: int = 1


@dataclass(slots=True, kw_only=True)
class _Armed:
    fault: Fault
    seen: int = 0


@dataclass(slots=True)
class Faults:
    _armed: list[_Armed] = field(default_factory=list)

    def add(self, *faults: Fault) -> None:
        self._armed.extend(_Armed(fault=fault) for fault in faults)

    def clear(self) -> None:
        self._armed.clear()

    def meet(self, verb: Verb) -> Fault | None:
        """The fault that this call meets, if any. Each call counts for all that wait for its verb."""
        met: Fault | None = None
        for armed in self._armed:
            if armed.fault.on is not verb:
                continue
            armed.seen += 1
            due = armed.fault.skip < armed.seen <= armed.fault.skip + armed.fault.times
            met = met or (armed.fault if due else None)
        return met
