"""The user data of a machine on EC2: constant for a template's content, and free of secrets."""

from collections.abc import Sequence

from muster.agent.machine_script import compressed, machine_script
from muster.domain.errors import Refused
from muster.domain.reasons import Reason

LIMIT = 16 * 1024
"""Bytes that AWS takes, before they are encoded for the wire."""
_IDENTITY = ("--identity", "ec2")


def script(agent: str, *, servers: Sequence[str], dead_man: float) -> str:
    return machine_script(agent, servers=servers, dead_man=dead_man, identity=_IDENTITY)


def packed(text: str) -> bytes:
    """Return the script compressed. Raises Refused if it is too large for AWS."""
    data = compressed(text)
    if len(data) > LIMIT:
        message = (
            f"cannot launch: the user data has {len(data)} bytes compressed, and EC2 takes {LIMIT};"
            " shorten server.public_url, or use an agent that is smaller"
        )
        raise Refused(message, Reason.PROVIDER_REFUSED)
    return data
