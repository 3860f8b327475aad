"""Identity documents: those that AWS signed for a machine of ours, and all the others."""

import asyncio
import base64
import json
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from fakes.ec2 import FakeEc2, Signer
from fakes.ec2.cloud import ACCOUNT
from fakes.ec2.signing import document
from muster.domain.errors import Forbidden, MusterError, NotYet
from muster.integrations.ec2 import identity_documents
from muster.integrations.ec2.identity import SKEW, Ec2Verifier
from muster.integrations.ec2.provider import Ec2Provider
from muster.system import SystemClock
from tests.integrations.ec2.region import NAME, Region

MACHINE = "i-00000000000000001"
STARTED = datetime(2026, 11, 16, tzinfo=UTC)


def text(**changed: Any) -> bytes:
    given = {"instance_id": MACHINE, "account": ACCOUNT, "region": NAME, "started": STARTED}
    return document(**{**given, **changed})


def proof(signer: Signer, said: bytes | None = None) -> str:
    return "ec2:" + "".join(signer.signed(said or text()).decode().split())


@pytest.fixture
def verifier(region: Region, provider: Ec2Provider) -> Ec2Verifier:
    return Ec2Verifier(region.settings(), provider.aws, SystemClock())


async def test_a_signed_document_proves_the_machine_and_nothing_more(
    verifier: Ec2Verifier, signer: Signer
) -> None:
    identity = await verifier.verify(proof(signer))
    assert (identity.provider, identity.machine_id) == ("ec2", MACHINE)
    assert identity.since == STARTED.timestamp()
    assert identity.token is None and identity.installation_id is None


async def test_our_own_account_is_asked_once(verifier: Ec2Verifier, signer: Signer, fake: FakeEc2) -> None:
    await asyncio.gather(*(verifier.verify(proof(signer)) for _ in range(20)))
    await verifier.verify(proof(signer))
    assert fake.counted("GetCallerIdentity") == 1


async def test_no_machine_is_refused_for_an_account_that_could_not_be_told(
    region: Region, signer: Signer
) -> None:
    lost = region.provider(endpoint_url="http://127.0.0.1:1")
    with pytest.raises(NotYet, match=r"ec2\.account"):
        await Ec2Verifier(region.settings(), lost.aws, SystemClock()).verify(proof(signer))
    known = Ec2Verifier(region.settings(account=ACCOUNT), lost.aws, SystemClock())
    assert (await known.verify(proof(signer))).machine_id == MACHINE


@pytest.mark.parametrize(
    ("said", "why"),
    [
        (text(account="999999999999"), "of the account 999999999999, and not of 123456789012"),
        (text(region="us-east-1"), "of the region 'us-east-1'.*machines are in eu-west-1"),
        (text(started=datetime.fromtimestamp(time.time() + SKEW + 3600, UTC)), r"starts \d+ s in the future"),
        (b'{"instanceId": "i-1"}', "no identity document"),
        (b"[]", "no identity document"),
        (json.dumps({**json.loads(text()), "pendingTime": "soon"}).encode(), "no identity document"),
        (json.dumps({**json.loads(text()), "instanceId": 7}).encode(), "no identity document"),
    ],
    ids=["account", "region", "future", "partial", "list", "time", "number"],
)
async def test_a_document_of_another_account_is_refused_although_it_is_signed(
    verifier: Ec2Verifier, signer: Signer, said: bytes, why: str
) -> None:
    with pytest.raises(Forbidden, match=f"cannot accept the identity document: .*{why}"):
        await verifier.verify(proof(signer, said))


async def test_a_document_that_another_key_signed_is_refused(verifier: Ec2Verifier) -> None:
    with pytest.raises(Forbidden, match="its signature is not AWS's"):
        await verifier.verify(proof(Signer()))


def signed_bytes(signer: Signer) -> bytes:
    return base64.b64decode(proof(signer).removeprefix("ec2:"))


async def test_content_that_was_changed_after_it_was_signed_is_refused(
    verifier: Ec2Verifier, signer: Signer
) -> None:
    forged = signed_bytes(signer).replace(MACHINE.encode(), b"i-0000000000000dead")
    with pytest.raises(Forbidden, match="its content is not what was signed"):
        await verifier.verify("ec2:" + base64.b64encode(forged).decode())


async def test_no_byte_of_a_message_can_be_changed_without_being_noticed(signer: Signer) -> None:
    """Every byte, one by one: refused, or (in parts that aren't read) the very same document."""
    message, key = signed_bytes(signer), identity_documents.key_of(signer.pem)
    meant = identity_documents.verify(message, key)
    for place in range(len(message)):
        changed = bytearray(message)
        changed[place] ^= 0x01
        try:
            assert identity_documents.verify(bytes(changed), key) == meant
        except identity_documents.Forged:
            continue


@pytest.mark.parametrize("cut", [lambda m: m[:-1], lambda m: m[: len(m) // 2], lambda m: m + b"\0"])
async def test_a_message_that_is_cut_or_longer_is_refused(
    signer: Signer, cut: Callable[[bytes], bytes]
) -> None:
    with pytest.raises(identity_documents.Forged):
        identity_documents.verify(cut(signed_bytes(signer)), identity_documents.key_of(signer.pem))


@pytest.mark.parametrize(
    "junk",
    [
        "",
        "ec2:",
        "ec2:!!!",
        "ec2:AAAA",
        "process:m-1:secret",
        "ec2:MIAG",
        "ec2:" + "MIAG" * 4000,
        "ec2:\udcff",
    ],
)
async def test_junk_is_refused_in_words(verifier: Ec2Verifier, junk: str) -> None:
    with pytest.raises(Forbidden, match="cannot accept the identity document"):
        await verifier.verify(junk)


async def test_without_a_certificate_of_its_region_there_is_no_such_provider(
    region: Region, provider: Ec2Provider
) -> None:
    with pytest.raises(MusterError, match=r"set ec2\.certificates\.eu-west-1"):
        Ec2Verifier(region.settings(certificates={}), provider.aws, SystemClock())


@pytest.mark.parametrize("pem", ["", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----"])
async def test_a_certificate_that_is_none_is_named(region: Region, provider: Ec2Provider, pem: str) -> None:
    with pytest.raises(MusterError, match=r"cannot use ec2\.certificates\.eu-west-1"):
        Ec2Verifier(region.settings(certificates={NAME: pem}), provider.aws, SystemClock())
