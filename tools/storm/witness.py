"""The witness: samples of the process table, taken beside the servers and without asking them."""

import itertools
import threading

from tools.storm.servers import Servers

EVERY = 0.25


class Witness:
    def __init__(self, servers: Servers, *, over: threading.Event) -> None:
        self._servers = servers
        self._over = over
        self.samples = 0
        self.most = 0
        """The most machines that were alive at once."""

    def watch(self) -> None:
        while not self._over.wait(EVERY):
            self.samples += 1
            self.most = max(self.most, len(self._servers.machines()))


def longest_gap(successes: list[float], began: float, ended: float) -> float:
    """Return the longest time without a success, the storm's own beginning and end included."""
    moments = [began, *sorted(each for each in successes if each <= ended), ended]
    return max(later - earlier for earlier, later in itertools.pairwise(moments))
