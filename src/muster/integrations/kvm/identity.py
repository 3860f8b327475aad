"""The identity that a machine reads from its firmware: who it is, and what makes it unlike other copies.

All identities have the same size (`guest_identity`). The secret is `<machine id>:<secret>`, as the agent
shows it.
"""

import json
import secrets

from muster.integrations.kvm.guest_identity import SIZE
from muster.integrations.kvm.qemu import mac_of

_ENTROPY = 64


def identity(machine: str, *, now: float, secret: str = "") -> bytes:
    """Return the identity of a machine. Without a secret, a copy wakes up and does nothing."""
    entropy = secrets.token_hex(_ENTROPY)
    content = {"machine": machine, "mac": mac_of(machine), "time": now, "entropy": entropy}
    return _padded(content | ({"secret": f"{machine}:{secret}"} if secret else {}))


def nobody(name: str) -> bytes:
    """Return what a machine reads that waits for its identity."""
    return _padded({"mac": mac_of(name)})


def _padded(content: dict[str, object]) -> bytes:
    return json.dumps(content).encode().ljust(SIZE)
