from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from muster.cli.streaming import Prefixed, stream
from muster.cli.watching import Patience
from muster.domain.command import OUTPUT_CAP

Bytes = pytest.CaptureFixture[bytes]


def test_every_line_carries_its_number_and_lines_are_never_mixed(capsysbinary: Bytes) -> None:
    printer = Prefixed(colour=False)
    for ordinal, piece in ((0, b"on"), (1, b"two\nthr"), (0, b"e\n"), (1, b"ee\n")):
        printer.take(ordinal, piece)
    printer.finish()
    assert capsysbinary.readouterr().out == b"[1] two\n[0] one\n[1] three\n"


def test_a_last_line_without_an_end_and_bytes_that_are_no_text_come_through(capsysbinary: Bytes) -> None:
    printer = Prefixed(colour=False)
    printer.take(3, b"\xff\xfe\x00\nlast")
    printer.finish()
    assert capsysbinary.readouterr().out == b"[3] \xff\xfe\x00\n[3] last\n"


def test_a_line_without_end_does_not_fill_the_memory(capsysbinary: Bytes) -> None:
    printer = Prefixed(colour=False)
    printer.take(0, b"x" * 100_000)
    assert len(capsysbinary.readouterr().out) > 100_000


class Cut:
    """A client of a server that kept so much of a command's output and no more."""

    def __init__(self, kept: int) -> None:
        self._kept = kept

    def follow(self, _command_id: str) -> Iterator[bytes]:
        yield b"first"

    def send(self, _call: object) -> object:
        return SimpleNamespace(kept=self._kept)


@pytest.mark.parametrize(
    ("kept", "why"),
    [(OUTPUT_CAP, b"16 MiB of output are kept per command"), (5, b"the server's disk was full")],
)
def test_where_output_was_cut_the_reason_is_said(capsysbinary: Bytes, kept: int, why: bytes) -> None:
    client: Any = Cut(kept)
    command: Any = SimpleNamespace(id="cmd-1", ordinal=0)
    stream(client, [command], Patience(None), how="")
    assert capsysbinary.readouterr().out.decode().splitlines()[-1] == f"[0] … cut here: {why.decode()}"
