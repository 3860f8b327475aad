import io
import re
from collections.abc import Iterator
from contextlib import redirect_stdout
from types import SimpleNamespace
from typing import Any

import pytest

from muster.cli import output
from muster.cli.command_output import PrefixedPrinter, print_output
from muster.cli.operation_watch import Patience
from muster.domain.command import OUTPUT_CAP

Bytes = pytest.CaptureFixture[bytes]


def test_every_line_carries_its_number_and_lines_are_never_mixed(capsysbinary: Bytes) -> None:
    printer = PrefixedPrinter(colour=False)
    for ordinal, piece in ((0, b"on"), (1, b"two\nthr"), (0, b"e\n"), (1, b"ee\n")):
        printer.take(ordinal, piece)
    printer.finish()
    assert capsysbinary.readouterr().out == b"[1] two\n[0] one\n[1] three\n"


def test_a_last_line_without_an_end_and_bytes_that_are_no_text_come_through(capsysbinary: Bytes) -> None:
    printer = PrefixedPrinter(colour=False)
    printer.take(3, b"\xff\xfe\x00\nlast")
    printer.finish()
    assert capsysbinary.readouterr().out == b"[3] \xff\xfe\x00\n[3] last\n"


def test_a_line_without_end_does_not_fill_the_memory(capsysbinary: Bytes) -> None:
    printer = PrefixedPrinter(colour=False)
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
    print_output(client, [command], Patience(None), how="")
    assert capsysbinary.readouterr().out.decode().splitlines()[-1] == f"[0] … cut here: {why.decode()}"


HOSTILE = (
    b"\x1b]0;title\x07\x1b]52;c;cm0gLXJm\x07\x1b[2J\x1b[1;1H\x1bP+q\x1b\\\x1b[6n\x9b31m\xc2\x9b2J\x07\x08\x0e"
    b"\x1b[31mred\x1b[0m end\x1b"
)


class Screen(io.TextIOWrapper):
    """A terminal as far as programs can tell, which keeps what it gets."""

    def __init__(self) -> None:
        self.got = io.BytesIO()
        super().__init__(self.got, encoding="utf-8")

    def isatty(self) -> bool:
        return True


def test_what_a_job_writes_does_nothing_to_a_terminal_but_colour_its_line() -> None:
    screen, printer = Screen(), PrefixedPrinter(colour=False)
    with redirect_stdout(screen):
        printer.take(0, HOSTILE + b"\nplain\t1\n0%\r50%\r99%\r\n")
        output.say("node \x1b[2Jsays \x9b2J\nmore")
    said = screen.got.getvalue().decode()
    first, *others = said.splitlines()
    assert others == ["[0] plain\t1", "[0] 99%", "node says \ufffd2J", "more"]
    assert first.endswith("^G^H^N\x1b[31mred\x1b[0m end\x1b[0m")
    assert re.findall(r"\x1b[^m]*m", said) == ["\x1b[31m", "\x1b[0m", "\x1b[0m"] and said.count("\x1b") == 3
    assert not re.search("[\x80-\x9f\x07\x08]", said)


def test_what_a_job_writes_comes_raw_where_that_is_wanted_or_where_a_program_reads(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(output.OutputSettings, "raw", True)
    screen, printer = Screen(), PrefixedPrinter(colour=False)
    with redirect_stdout(screen):
        printer.take(0, HOSTILE + b"\n")
    assert screen.got.getvalue() == b"[0] " + HOSTILE + b"\n"


def test_what_a_job_writes_is_piped_as_it_is(capsysbinary: Bytes) -> None:
    printer = PrefixedPrinter(colour=False)
    printer.take(0, HOSTILE + b"\n")
    assert capsysbinary.readouterr().out == b"[0] " + HOSTILE + b"\n"
