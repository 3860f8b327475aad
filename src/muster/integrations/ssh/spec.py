"""What a template says about the hosts of its nodes, checked."""

from dataclasses import dataclass
from enum import StrEnum

from muster.domain import checks
from muster.domain.errors import InvalidRequest

LABELS_MOST = 20


class HostArchitecture(StrEnum):
    X86_64 = "x86_64"
    AARCH64 = "aarch64"
    ANY = "any"


@dataclass(frozen=True, slots=True, kw_only=True)
class SshSpec:
    labels: tuple[str, ...] = ()
    """Labels that a host must have, all of them."""
    architecture: HostArchitecture = HostArchitecture.ANY

    def __post_init__(self) -> None:
        labels("ssh.labels", self.labels)
        checks.word("ssh.architecture", self.architecture, HostArchitecture)


def labels(name: str, value: object) -> tuple[str, ...]:
    if not isinstance(value, tuple | list) or len(value) > LABELS_MOST:
        raise InvalidRequest(name, value, f"must be a list of at most {LABELS_MOST} labels")
    return tuple(checks.name(name, each) for each in value)
