"""A runner that a scale set is short of, as a provision names it."""

from dataclasses import dataclass

from muster.config.tables import RequestTable
from muster.domain import checks
from muster.domain.errors import InvalidRequest
from muster.domain.requests import ProvisionRequest
from muster.domain.run_decisions import RESERVED
from muster.integrations.github.workflow import label

NUMBER_MOST = 1 << 62


@dataclass(frozen=True, slots=True, kw_only=True)
class SetRunnerRequest:
    """One runner of a scale set. It serves any one job that GitHub assigned to the set."""

    set: str
    number: int
    """Counts the runners that were asked for. Two replicas that ask for the same number get the same one."""

    def __post_init__(self) -> None:
        label("scale_set.set", self.set)
        checks.whole("scale_set.number", self.number, least=1, most=NUMBER_MOST)


def run_of(template: str) -> str:
    """Return the run that all runners of a template's scale set belong to."""
    return f"scale-set/{template}"


def key_of(template: str, number: int) -> str:
    """Return the idempotency key of a runner's provision."""
    return f"{RESERVED}scale-set/{template}/{number}"


def _own_run(request: ProvisionRequest, _: SetRunnerRequest) -> None:
    if request.run != run_of(request.template) or request.count != 1:
        rule = f"must be {run_of(request.template)} with a count of 1: Muster asks for runners of scale sets"
        raise InvalidRequest("run", request.run, rule)


SET_RUNNER = RequestTable(name="scale_set", kind=SetRunnerRequest, runtime="github", rule=_own_run)
