from muster.cli.printing import Column, fitted

COLUMNS = (Column("ID"), Column("NAME", cut=True), Column("STEP", cut=True), Column("AGE", right=True))
ROWS = [["ID", "NAME", "STEP", "AGE"], ["node-1m7gfgqra1p8rw3mpx", "n" * 60, "s" * 40, "12s"]]


def test_columns_that_fit_are_as_wide_as_their_content() -> None:
    assert fitted(COLUMNS, ROWS, 200) == [23, 60, 40, 3]
    assert fitted(COLUMNS, ROWS, None) == [23, 60, 40, 3]


def test_only_columns_that_may_be_cut_give_way_and_the_widest_first() -> None:
    widths = fitted(COLUMNS, ROWS, 80)
    assert sum(widths) + 2 * 3 == 80
    assert widths[0] == 23 and widths[3] == 3
    assert abs(widths[1] - widths[2]) <= 1


def test_a_terminal_that_is_far_too_narrow_still_shows_whole_ids() -> None:
    assert fitted(COLUMNS, ROWS, 20) == [23, 8, 8, 3]
