"""What goes wrong in the simulated cloud, as data: probabilities per call, ranges in seconds, rates per hour.

Owns no chance: the cloud draws from its own generator. `NO_FAULTS` is a quick and honest cloud.
"""

from dataclasses import dataclass

Range = tuple[float, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class CloudFaults:
    latency: Range = (0.0, 0.0)
    """Each way of a call."""
    lost_request: float = 0.0
    """Never arrives; the caller waits for its timeout."""
    lost_reply: float = 0.0
    """It happened; the caller waits for its timeout."""
    late_request: float = 0.0
    """Arrives, and happens, after the caller gave up."""
    late_by: Range = (30.0, 150.0)
    duplicate: float = 0.0
    """The request arrives twice."""
    throttled: float = 0.0
    refused: float = 0.0
    partial: float = 0.0
    """A launch gets fewer machines than it asked for."""
    empty: float = 0.0
    """A launch gets no machine at all."""
    start: Range = (0.0, 0.0)
    """From its making until a machine runs."""
    lag: Range = (0.0, 0.0)
    """From its making until a machine is visible; cut to the visibility window."""
    stop: Range = (0.0, 0.0)
    """From an accepted termination until the machine is gone."""
    deaf: float = 0.0
    """A termination is accepted and nothing comes of it: it must be asked for again."""
    deaths: float = 0.0
    """Per machine and hour."""
    interruptions: float = 0.0
    """Per spot machine and hour, on top."""


NO_FAULTS = CloudFaults()
