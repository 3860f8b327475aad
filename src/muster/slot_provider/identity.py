"""Verify a joining agent: it shows the secret that its slot was started with.

A proof is `<provider>:<machine id>:<secret>`. The slot holds only the secret's hash, so a reader of the disk
can't join. Only a living machine can join, so a secret is worthless once its node has ended.
"""

import asyncio
import hashlib
import hmac
from pathlib import Path

from muster.domain.errors import Forbidden
from muster.ports.identity import Identity
from muster.slots.tree import Tree

_LONGEST = 512


class SlotVerifier:
    """Implements muster.ports.identity.IdentityVerifier."""

    def __init__(self, provider: str, root: Path, *, installation_id: str) -> None:
        self._provider = provider
        self._tree = Tree(root, installation_id)

    async def verify(self, proof: str) -> Identity:
        return await asyncio.to_thread(self._verify, proof)

    def _verify(self, proof: str) -> Identity:
        parts = proof.split(":") if len(proof) <= _LONGEST else []
        if len(parts) != len(("provider", "machine", "secret")) or parts[0] != self._provider:
            form = f"{self._provider}:<machine>:<secret>"
            raise Forbidden(f"cannot accept the proof: it is not of the form {form}")
        _, machine_id, secret = parts
        slot = self._tree.slot(machine_id)
        record = None if slot is None or slot.gone else slot.record()
        if slot is None or record is None:
            raise Forbidden("cannot accept the proof: there is no such machine here")
        shown = hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()
        if not hmac.compare_digest(shown, record.secret_sha256):
            raise Forbidden("cannot accept the proof: it doesn't show this machine's secret")
        if not slot.locked():
            raise Forbidden("cannot accept the proof: the machine has ended")
        return Identity(
            installation_id=slot.grant.installation_id,
            provider=self._provider,
            machine_id=machine_id,
            token=slot.grant.token,
        )
