"""Figures in Prometheus's text format."""

from muster.api.metrics import Metrics
from muster.api.prometheus import Counter, Histogram


def test_a_bucket_holds_what_is_no_longer_than_its_edge() -> None:
    figure = Histogram("took", "How long.", (0.1, 1.0))
    for value in (0.0, 0.1, 0.11, 1.0, 1.01):
        figure.observe(value, verb="claim")
    counts = {
        line.split('le="')[1].split('"')[0]: line.split()[-1] for line in figure.lines() if "le=" in line
    }
    assert counts == {"0.1": "2", "1": "4", "+Inf": "5"}


def test_a_count_of_millions_is_told_to_the_last_one() -> None:
    for labels in ({}, {"verb": "claim"}):
        figure = Counter("taken_total", "How many.")
        figure.add(12_345_677, **labels)
        figure.add(1, **labels)
        assert list(figure.lines())[-1].split()[-1] == "12345678"


def test_the_first_orphan_of_a_server_is_an_increase() -> None:
    assert list(Metrics(started_at=0.0).orphans.lines())[-1] == "muster_orphans_total 0"
