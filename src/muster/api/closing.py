"""The end of service: long answers hear of it and end by themselves, so that a stop waits for none."""

from muster.ports.wakeups import Wakeups

TOPIC = "closing"


class Closing:
    def __init__(self, wakeups: Wakeups) -> None:
        self._wakeups = wakeups
        self.begun = False

    def begin(self) -> None:
        self.begun = True
        self._wakeups.notify(TOPIC)
