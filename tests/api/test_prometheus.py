"""Figures in Prometheus's text format."""

from muster.api.prometheus import Histogram


def test_a_bucket_holds_what_is_no_longer_than_its_edge() -> None:
    figure = Histogram("took", "How long.", (0.1, 1.0))
    for value in (0.0, 0.1, 0.11, 1.0, 1.01):
        figure.observe(value, verb="claim")
    counts = {
        line.split('le="')[1].split('"')[0]: line.split()[-1] for line in figure.lines() if "le=" in line
    }
    assert counts == {"0.1": "2", "1": "4", "+Inf": "5"}
