"""Why a job that waits is not served, and what to do about it."""

from enum import StrEnum


class Unserved(StrEnum):
    """Why no machine is on its way to a queued job, or none could take it."""

    NO_TEMPLATE = "no_template"
    NOT_ALLOWED = "not_allowed"
    PAUSED = "paused"
    CAP = "cap"
    CAPACITY = "capacity"
    GROUP = "group"
    REGISTRATION = "registration"
    THROTTLED = "throttled"
    TAKEN = "taken"
    FAILED = "failed"
    INVALID = "invalid"
    SOURCE = "source"


CAUSES: dict[Unserved, tuple[str, str]] = {
    Unserved.NO_TEMPLATE: (
        "no template has its labels and serves its repository",
        "correct `runs-on`, or the labels or the scope in a template's runner table",
    ),
    Unserved.NOT_ALLOWED: (
        "its repository is not allowed",
        "add the repository to the allowed ones, if its jobs may run here",
    ),
    Unserved.PAUSED: ("its template is paused", "`muster resume` lets new machines start again"),
    Unserved.CAP: (
        "the cap on nodes is reached",
        "wait, release nodes, or raise max_nodes of the template or the installation",
    ),
    Unserved.CAPACITY: (
        "the provider has no machine for it",
        "allow more instance types or zones, or fall back to on-demand",
    ),
    Unserved.GROUP: (
        "its runner is online and the source gives it no job",
        "check that the runner group allows the repository, and that the runner has all labels",
    ),
    Unserved.REGISTRATION: (
        "its runner could not be registered",
        "check the credentials and rights that `muster doctor` names",
    ),
    Unserved.THROTTLED: (
        "the source limits how many runners may be registered per minute",
        "wait: Muster serves it within the limit",
    ),
    Unserved.TAKEN: (
        "another job took the runner that was made for it",
        "wait: Muster makes another one",
    ),
    Unserved.SOURCE: (
        "its source can't be reached, or refuses",
        "run `muster doctor`: it checks address, credentials and rights; Muster tries again by itself",
    ),
    Unserved.INVALID: (
        "no provision can be asked for it",
        "correct what is named: the labels of `runs-on`, or the template",
    ),
    Unserved.FAILED: ("its provision failed", "read why: `muster operations why OPERATION`"),
}
"""What to say of a cause, and what to do."""
