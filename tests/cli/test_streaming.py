import pytest

from muster.cli.streaming import Prefixed

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
