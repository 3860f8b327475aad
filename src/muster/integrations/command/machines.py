"""The machines of a launch before an executable makes them: name, secret and start script of each.

A name says all that Muster must know of a machine it finds: installation, launch and ordinal. So an
executable needs no tags, and a machine of another installation is never taken for one of ours.
"""

import hashlib
import hmac
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import muster.agent
from muster.agent.machine_script import machine_script, self_extracting
from muster.domain.errors import Refused
from muster.domain.reasons import Reason
from muster.domain.template import TemplateSpec
from muster.integrations.command.protocol import AskedMachine
from muster.ports.provider import LaunchRequest

NAME_MOST = 63
"""Characters of a host name."""
_PREFIX, _JOINT = "muster-", "--"
_WORD = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """What a machine's name says."""

    installation_id: str
    token: str
    ordinal: int


def installation_prefix(installation_id: str) -> str:
    """Return what the names of all machines of an installation begin with."""
    return f"{_PREFIX}{installation_id}{_JOINT}"


def launch_prefix(installation_id: str, token: str) -> str:
    """Return what the names of the machines of one launch begin with. Raises Refused.

    `inst-1` and the token `inst-1/op-7.2` give `muster-inst-1--op-7--2-`.
    """
    own = token.removeprefix(f"{installation_id}/")
    words = own.split(".") if own != token else [own]
    parts = [installation_id, *words]
    if len(words) > 2 or not all(map(_WORD.fullmatch, parts)):  # noqa: PLR2004 — operation and number
        raise Refused(f"cannot launch: no machine can be named after {token}", Reason.INTERNAL)
    return f"{_PREFIX}{_JOINT.join(parts)}-"


def origin_of(name: str) -> Origin | None:
    """Return what a name says; None if Muster didn't make it."""
    stem, _, ordinal = name.removeprefix(_PREFIX).rpartition("-")
    parts = stem.split(_JOINT)
    if not name.startswith(_PREFIX) or not ordinal.isdecimal() or len(parts) not in (2, 3):
        return None
    installation_id, *words = parts
    token = words[0] if len(words) == 1 else f"{installation_id}/{words[0]}.{words[1]}"
    return Origin(installation_id=installation_id, token=token, ordinal=int(ordinal))


class MachineMaker:
    """Makes what the machines of a launch are given."""

    def __init__(
        self, *, provider: str, key: bytes, servers: Sequence[str], dead_man: Callable[[TemplateSpec], float]
    ) -> None:
        self._provider = provider
        self._key = key
        self._servers = tuple(sorted(servers))
        self._dead_man = dead_man

    def machines(self, request: LaunchRequest) -> Sequence[AskedMachine]:
        prefix = launch_prefix(request.installation_id, request.token)
        names = [f"{prefix}{ordinal}" for ordinal in range(request.count)]
        if len(names[-1]) > NAME_MOST:
            rule = f"the name {names[-1]} has more than {NAME_MOST} characters"
            raise Refused(f"cannot launch: {rule}; ask for fewer machines at once", Reason.PROVIDER_REFUSED)
        return [AskedMachine(name=name, user_data=self._script(request.template, name)) for name in names]

    def secret(self, name: str) -> str:
        """Return the secret of the machine of that name. A repeated launch sends the same one."""
        return hmac.new(self._key, f"{self._provider}:{name}".encode(), hashlib.sha256).hexdigest()

    def starts_with(self, template: TemplateSpec) -> str:
        """Return the start script without name and secret: what outdates a node when it changes."""
        return self._plain(template, "NAME", "SECRET")

    def _script(self, template: TemplateSpec, name: str) -> str:
        return self_extracting(self._plain(template, name, self.secret(name)))

    def _plain(self, template: TemplateSpec, name: str, secret: str) -> str:
        identity = ("--secret-fd", "3", "--proof-prefix", f"{self._provider}:{name}:")
        return machine_script(
            muster.agent.source(),
            servers=self._servers,
            dead_man=self._dead_man(template),
            identity=identity,
            secret=secret,
        )
