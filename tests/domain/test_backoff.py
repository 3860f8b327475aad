from muster.domain.backoff import backoff, spread


def test_each_try_waits_twice_as_long_as_the_one_before_up_to_the_most() -> None:
    assert [backoff(tries, first=0.5, most=3.0) for tries in range(5)] == [0.5, 1.0, 2.0, 3.0, 3.0]


def test_very_many_tries_wait_no_longer_than_the_most() -> None:
    assert backoff(100_000, first=0.02, most=2.0) == 2.0


def test_a_pause_is_spread_over_its_second_half() -> None:
    assert (spread(8.0, 0.0), spread(8.0, 1.0)) == (4.0, 8.0)
