import pytest
import typer

from muster.cli.durations import format_clock, format_rough, format_taken, parse_duration


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("90", 90.0),
        ("90s", 90.0),
        ("1.5s", 1.5),
        ("30m", 1800.0),
        ("2h", 7200.0),
        ("1h30m", 5400.0),
        ("1d", 86400.0),
    ],
)
def test_durations_are_read_as_people_write_them(text: str, expected: float) -> None:
    assert parse_duration(text) == expected


@pytest.mark.parametrize("text", ["", "abc", "5x", "-3", "1e9", "30 m", "m", "nan", "9" * 5000])
def test_what_is_no_duration_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(typer.BadParameter, match="write seconds like 90, or 90s, 30m, 2h"):
        parse_duration(text)


def test_durations_are_shown_with_the_precision_that_matters() -> None:
    assert [format_clock(value) for value in (0, 12.9, 61, 3900)] == ["0m 00s", "0m 12s", "1m 01s", "1h 05m"]
    assert [format_taken(value) for value in (0.042, 4.12, 123)] == ["0.04 s", "4.1 s", "2m 03s"]
    assert [format_rough(value) for value in (-1, 12.9, 61, 7300, 200000)] == ["0s", "12s", "1m", "2h", "2d"]
