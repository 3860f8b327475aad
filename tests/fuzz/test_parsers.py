import gzip
import io
import json
import tarfile
import tempfile
import zlib
from base64 import urlsafe_b64encode
from contextlib import suppress
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from hypothesis import given
from hypothesis import strategies as st

from fakes.ec2.signing import Signer, document
from muster.api import beats
from muster.api.decoders import BodyReader, InvalidInput, Malformed, QueryReader, Unreadable
from muster.cli.downloads import unpack
from muster.cli.exits import UsageProblem
from muster.domain.errors import InvalidRequest
from muster.integrations.ec2 import identity_documents
from muster.integrations.ec2.identity_documents import Forged
from muster.ports.store import Cursor
from muster.stores import cursors
from muster.wire.agent import POLL_MOST, DesiredQuery, JoinRequest, Report
from tests.fuzz import fuzzed

DEEP = st.integers(1, 3000).map(lambda depth: "[" * depth + "]" * depth)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=10,
)
TEXTS = DEEP | VALUES.map(json.dumps) | st.text()


@st.composite
def damaged(draw: st.DrawFn, whole: bytes) -> bytes:
    """Something good with a few bytes changed, left out, doubled or cut off."""
    data = bytearray(whole)
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, max(0, len(data) - 1)))
        match draw(st.sampled_from("sidc")):
            case "s":
                data[at : at + 1] = bytes([draw(st.integers(0, 255))])
            case "i":
                data[at:at] = draw(st.binary(max_size=8))
            case "d":
                del data[at : at + draw(st.integers(1, 32))]
            case _:
                del data[at:]
    return bytes(data)


# --- identity documents -------------------------------------------------------------------------------


@cache
def signer() -> Signer:
    return Signer()


@cache
def signed() -> bytes:
    started = datetime(2026, 5, 4, tzinfo=UTC)
    return signer().signed(document(instance_id="i-1", account="1", region="eu-west-1", started=started))


@cache
def key() -> Any:
    return identity_documents.key_of(signer().pem)


@fuzzed(150)
@given(st.data())
def test_a_damaged_identity_document_is_forged_and_no_crash(data: st.DataObject) -> None:
    message = data.draw(st.binary(max_size=200) | damaged(signed()))
    with suppress(Forged):
        identity_documents.claimed_region(message)
    try:
        told = identity_documents.verify(message, key())
    except Forged:
        return
    assert told == identity_documents.verify(signed(), key()), "only what was signed is believed"


MOMENTS = st.datetimes().map(str) | st.sampled_from(
    ["0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00"]
)


@fuzzed(100)
@given(
    TEXTS
    | st.fixed_dictionaries(
        dict.fromkeys(("instanceId", "accountId", "region"), VALUES) | {"pendingTime": MOMENTS | VALUES}
    ).map(json.dumps)
    | MOMENTS.map(
        lambda at: json.dumps(dict.fromkeys(("instanceId", "accountId", "region", "pendingTime"), at))
    )
)
def test_what_an_identity_document_says_is_read_or_refused(said: str) -> None:
    with suppress(Forged):
        identity_documents.read(said.encode("utf-8", "surrogatepass"))


# --- what callers and agents say ----------------------------------------------------------------------


def _sealed(body: bytes) -> Cursor:
    """As a caller can make it who knows how: a checksum is no secret."""
    return Cursor(urlsafe_b64encode(zlib.crc32(body).to_bytes(4, "big") + body).decode().rstrip("="))


@fuzzed(150)
@given(
    st.text().map(Cursor)
    | TEXTS.map(lambda text: _sealed(text.encode("utf-8", "surrogatepass")))
    | st.lists(VALUES, max_size=3).map(lambda place: _sealed(json.dumps(["nodes", *place]).encode()))
)
def test_a_cursor_is_of_its_list_or_refused(cursor: Cursor) -> None:
    for types in ((str,), (float, str), (int,)):
        with suppress(InvalidRequest):
            place = cursors.decode("nodes", cursor, *types)
            assert all(isinstance(value, cls) for value, cls in zip(place, types, strict=True))


@fuzzed(150)
@given(TEXTS | st.dictionaries(st.sampled_from(["activity", "status", "reason"]), VALUES).map(json.dumps))
def test_a_beat_is_understood_or_refused(said: str) -> None:
    with suppress(InvalidInput, Malformed, Unreadable):
        beats._words(said.encode("utf-8", "surrogatepass"))


@fuzzed(150)
@given(
    TEXTS
    | st.dictionaries(
        st.sampled_from([*Report.__struct_fields__, *JoinRequest.__struct_fields__]), VALUES
    ).map(json.dumps)
)
def test_an_agent_s_words_fit_their_model_or_are_refused(said: str) -> None:
    for shape in (Report, JoinRequest):
        with suppress(InvalidInput, Malformed, Unreadable):
            BodyReader(shape).read(said.encode("utf-8", "surrogatepass"))


@fuzzed(150)
@given(
    st.binary(max_size=60)
    | st.dictionaries(
        st.sampled_from(DesiredQuery.__struct_fields__), st.integers() | st.floats() | st.text()
    ).map(lambda query: urlencode(query, errors="replace").encode())
)
def test_a_query_fits_its_shape_or_is_refused(query: bytes) -> None:
    with suppress(InvalidInput):
        asked = QueryReader(DesiredQuery).read(query)
        assert 0 <= asked.timeout <= POLL_MOST


# --- archives -----------------------------------------------------------------------------------------

NAMES = st.sampled_from(
    ["a", "a/b", "../out", "/etc/out", "link", "link/in", ".", "a\0b", "x" * 300]
) | st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20)
KINDS = st.sampled_from(
    [tarfile.REGTYPE, tarfile.DIRTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE, tarfile.CHRTYPE]
)


@st.composite
def archives(draw: st.DrawFn) -> bytes:
    written = io.BytesIO()
    with tarfile.open(fileobj=written, mode="w", format=tarfile.PAX_FORMAT) as packed:
        for name, kind, target in draw(st.lists(st.tuples(NAMES, KINDS, NAMES), max_size=5)):
            member = tarfile.TarInfo(name)
            member.type, member.linkname = kind, target
            member.mtime = draw(st.integers(0, 2**40))
            member.pax_headers = draw(
                st.dictionaries(st.sampled_from(["mtime", "size", "path", "linkpath"]), NAMES, max_size=1)
            )
            content = draw(st.binary(max_size=20)) if kind == tarfile.REGTYPE else b""
            member.size = len(content)
            with suppress(ValueError, UnicodeError):
                packed.addfile(member, io.BytesIO(content))
    whole = written.getvalue()
    return draw(st.just(whole) | damaged(whole))


@fuzzed(60)
@given(archives(), st.booleans())
def test_an_archive_stays_in_its_directory_or_is_refused(whole: bytes, zipped: bool) -> None:
    with tempfile.TemporaryDirectory() as name:
        home = Path(name)
        (home / "canary").write_text("untouched")
        archive, into = home / "archive", home / "into"
        archive.write_bytes(gzip.compress(whole, 1) if zipped else whole)
        into.mkdir()
        with suppress(UsageProblem):
            unpack(archive, into)
        assert sorted(each.name for each in home.iterdir()) == ["archive", "canary", "into"]
        assert (home / "canary").read_text() == "untouched"
