"""Verify a joining machine: it shows the secret that its start script brought.

A proof is `command-NAME:MACHINE NAME:SECRET`. The secret is derived from a key of the server and the
machine's name. So no server stores secrets, and any server with the key can check them. What runs on the
machine can read its start script, so the secret is worthless after the first join: a second one is refused.
"""

import hmac
import os
import secrets
from contextlib import suppress
from pathlib import Path

from muster.domain.access import read_proof
from muster.domain.errors import Forbidden, MusterError, NotYet, ProviderError
from muster.integrations.command.machines import MachineMaker, origin_of
from muster.integrations.command.provider import CommandProvider
from muster.ports.identity import Identity

AGAIN = 5.0
KEY_FILE = "command.key"
KEY_LEAST = 32


class CommandVerifier:
    """Implements muster.ports.identity.IdentityVerifier."""

    def __init__(self, provider: CommandProvider, maker: MachineMaker, *, installation_id: str) -> None:
        self._provider = provider
        self._maker = maker
        self._installation_id = installation_id

    async def verify(self, proof: str) -> Identity:
        name, secret = read_proof(proof, self._provider.name)
        origin = origin_of(name)
        if origin is None or origin.installation_id != self._installation_id:
            raise Forbidden("cannot accept the proof: it is of no machine of this installation")
        if not hmac.compare_digest(secret.encode(errors="replace"), self._maker.secret(name).encode()):
            raise Forbidden(
                "cannot accept the proof: it doesn't show the secret of that machine;"
                f" with several servers, each needs the same {KEY_FILE}"
            )
        return Identity(
            provider=self._provider.name,
            machine_id=await self._machine_id(name, origin.token),
            installation_id=self._installation_id,
            token=origin.token,
        )

    async def _machine_id(self, name: str, token: str) -> str:
        try:
            machine_id = await self._provider.id_of(name, token)
        except ProviderError as error:
            raise NotYet(f"cannot look up machine {name}: {error}", AGAIN) from error
        if machine_id is None:
            raise NotYet(f"cannot see machine {name} yet", AGAIN)
        return machine_id


def read_key(path: Path) -> bytes:
    """Return the key that machines' secrets are derived from. Makes the file if there is none."""
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_name(f"{path.name}.{secrets.token_hex(8)}")
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        with os.fdopen(descriptor, "w") as file:
            file.write(secrets.token_hex(KEY_LEAST) + "\n")
        # The first server to get here wins; all of them read the same.
        with suppress(FileExistsError):
            os.link(fresh, path)
    finally:
        fresh.unlink()
    key = path.read_bytes().strip()
    if len(key) < KEY_LEAST:
        raise MusterError(
            f"cannot use {path}: it has fewer than {KEY_LEAST} characters; restore it, or remove it if no"
            " machine of a [command] provider is booting"
        )
    return key
