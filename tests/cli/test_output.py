from muster.cli.output import Column, Columns, column_widths, without_empty_columns, wrapped

COLUMNS: Columns[str] = (
    Column("ID"),
    Column("NAME", cut=True),
    Column("STEP", cut=True),
    Column("AGE", right=True),
)
ROWS = [["ID", "NAME", "STEP", "AGE"], ["node-1m7gfgqra1p8rw3mpx", "n" * 60, "s" * 40, "12s"]]


def test_columns_that_fit_are_as_wide_as_their_content() -> None:
    assert column_widths(COLUMNS, ROWS, 200) == [23, 60, 40, 3]
    assert column_widths(COLUMNS, ROWS, None) == [23, 60, 40, 3]


def test_only_columns_that_may_be_cut_give_way_and_the_widest_first() -> None:
    widths = column_widths(COLUMNS, ROWS, 80)
    assert sum(widths) + 2 * 3 == 80
    assert widths[0] == 23 and widths[3] == 3
    assert abs(widths[1] - widths[2]) <= 1


def test_a_terminal_that_is_far_too_narrow_still_shows_whole_ids() -> None:
    assert column_widths(COLUMNS, ROWS, 20) == [23, 8, 8, 3]


def test_columns_of_nothing_but_zeros_are_left_out_where_there_is_no_room_for_them() -> None:
    columns: Columns[str] = (
        Column("NAME"),
        *(Column(name, right=True, spare=True) for name in ("BOOT", "FAIL", "RUN")),
    )
    listed = [["NAME", "BOOT", "FAIL", "RUN"], ["a", "0", "0", "0"], ["b", "0", "2", "10"]]
    assert without_empty_columns(columns, listed, 21) == (columns, listed)
    narrow, rows = without_empty_columns(columns, listed, 20)
    assert [column.name for column in narrow] == ["NAME", "FAIL", "RUN"]
    assert rows == [["NAME", "FAIL", "RUN"], ["a", "0", "0"], ["b", "2", "10"]]


def test_a_long_line_goes_on_below_itself_and_never_within_a_word() -> None:
    assert wrapped("small: 2 idle, by first-admin", 20) == ["  small: 2 idle, by", "    first-admin"]
    assert wrapped("node-1m7gfgqra1p8rw3mpx", 10) == ["  node-1m7gfgqra1p8rw3mpx"]
