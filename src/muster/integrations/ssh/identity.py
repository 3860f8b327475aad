"""Who a joining agent is: it shows the secret that its slot was started with.

A proof is `ssh:<slot>@<host>:<secret>`. The host holds only the secret's hash, and the server asks the host
for it. Only a machine that lives can join. While its host can't be asked, the machine is told to try again.
"""

import hashlib
import hmac

from muster.domain.errors import Forbidden, NotYet, Uncertain
from muster.integrations.ssh.machines import parted
from muster.integrations.ssh.provider import NAME, SshProvider
from muster.ports.identity import Identity
from muster.ports.provider import MachineState

_LONGEST = 512
RETRY = 2.0


class SshVerifier:
    """Implements muster.ports.identity.IdentityVerifier."""

    def __init__(self, provider: SshProvider) -> None:
        self._provider = provider

    async def verify(self, proof: str) -> Identity:
        parts = proof.split(":") if len(proof) <= _LONGEST else []
        if len(parts) != len((NAME, "machine", "secret")) or parts[0] != NAME or not parted(parts[1]):
            raise Forbidden("cannot accept the proof: it is not of the form ssh:<machine>:<secret>")
        _, machine_id, secret = parts
        try:
            found = await self._provider.secret_hash(machine_id)
        except Uncertain as error:
            raise NotYet(f"cannot check the proof of {machine_id}: {error}", RETRY) from error
        if found is None or found[0].state is MachineState.GONE:
            raise Forbidden("cannot accept the proof: there is no such machine")
        shown = hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()
        if not hmac.compare_digest(shown, found[1]):
            raise Forbidden("cannot accept the proof: it doesn't show this machine's secret")
        return Identity(
            provider=NAME,
            machine_id=machine_id,
            installation_id=found[0].installation_id,
            token=found[0].token,
        )
