"""Hostile bytes for everything that parses them: a short run in `make check`, a long one in `make soak`.

A target may refuse what it is given by the one error that it promises. Any other error is a finding.
"""

import os

from hypothesis import HealthCheck, settings

FACTOR = int(os.environ.get("MUSTER_FUZZ_FACTOR", "1"))
"""How many times as long as in `make check`."""


def fuzzed(examples: int) -> settings:
    """The same examples each time in `make check`, so that a failure repeats; others in each soak."""
    return settings(
        max_examples=examples * FACTOR,
        deadline=None,
        derandomize=FACTOR == 1,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
