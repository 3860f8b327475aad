"""Who a joining machine is: it shows the identity document that AWS signed for it.

A proof is `ec2:` and the signed document in base64. It covers machine, account, region and start. Which
launch the machine belongs to is asked from our own records and from AWS, never from the machine. A document
can be read by everything that runs on its machine, so it opens the door once: the second key is refused.
"""

import asyncio
import base64
import binascii
from collections.abc import Mapping

from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey

from muster.domain.errors import Forbidden, MusterError, NotYet
from muster.integrations.ec2 import identity_documents
from muster.integrations.ec2.api import Aws
from muster.integrations.ec2.errors import AwsError, NoAnswer, NotAsked
from muster.integrations.ec2.identity_documents import Document, Forged
from muster.integrations.ec2.tables import EC2, Ec2Settings
from muster.ports.clock import Clock
from muster.ports.identity import Identity

SKEW = 300.0
"""Seconds by which AWS's clock may be ahead of ours."""
AGAIN = 5.0
SCHEME = f"{EC2}:"


class Ec2Verifier:
    """Implements muster.ports.identity.IdentityVerifier."""

    def __init__(self, settings: Ec2Settings, aws: Aws, clock: Clock) -> None:
        self._region = settings.region
        self._account = settings.account
        self._keys = _keys(settings.certificates)
        self._aws = aws
        self._clock = clock
        self._asking = asyncio.Lock()
        if self._region not in self._keys:
            raise MusterError(
                f"cannot use the provider ec2: no certificate to check machines of {self._region} with; set"
                f" ec2.certificates.{self._region} to AWS's RSA-2048 certificate of that region"
            )

    async def verify(self, proof: str) -> Identity:
        try:
            document = self._verified(proof)
        except Forged as error:
            raise _refused(str(error)) from error
        await self._check(document)
        return Identity(provider=EC2, machine_id=document.instance_id, since=document.started_at)

    def _verified(self, proof: str) -> Document:
        if not proof.startswith(SCHEME):
            raise Forged("it is not of the form ec2:<signed document>")
        try:
            message = base64.b64decode(proof.removeprefix(SCHEME), validate=True)
        except (binascii.Error, ValueError) as error:
            raise Forged("it is not base64") from error
        region = identity_documents.claimed_region(message)
        if region != self._region:
            raise Forged(f"it is of the region {region!r}, and this server's machines are in {self._region}")
        return identity_documents.verify(message, self._keys[region])

    async def _check(self, document: Document) -> None:
        account = await self._own_account()
        if document.account != account:
            raise _refused(f"it is of the account {document.account}, and not of {account}")
        ahead = document.started_at - self._clock.now()
        if ahead > SKEW:
            raise _refused(f"its document starts {ahead:.0f} s in the future")

    async def _own_account(self) -> str:
        # One asks; those who join at the same moment wait for that answer.
        async with self._asking:
            if not self._account:
                self._account = await self._asked_account()
        return self._account

    async def _asked_account(self) -> str:
        try:
            answer = await self._aws.read("get_caller_identity", service="sts")
        except (AwsError, NoAnswer, NotAsked) as error:
            raise NotYet(
                f"cannot read the account of the server's credentials: {error}; set ec2.account", AGAIN
            ) from error
        return str(answer["Account"])


def _keys(certificates: Mapping[str, str]) -> Mapping[str, RSAPublicKey]:
    found: dict[str, RSAPublicKey] = {}
    for region, pem in certificates.items():
        try:
            found[region] = identity_documents.key_of(pem)
        except ValueError as error:
            raise MusterError(f"cannot use ec2.certificates.{region}: {error}") from error
    return found


def _refused(why: str) -> Forbidden:
    return Forbidden(f"cannot accept the identity document: {why}")
