"""Settings of one installation that are not limits of a node's or operation's time."""

from dataclasses import dataclass, field

from muster.domain.deadlines import Limits


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    limits: Limits = field(default_factory=Limits)
    lease: float = 60.0
    """Long enough that a pause of seconds costs nothing, short enough that a takeover is soon."""
    renew_every: float = 15.0
    """A quarter of the lease: three renewals may fail before it is lost."""
    poll_every: float = 5.0
    """How often a waiting operation looks again although nobody woke it."""
    flush_every: float = 1.0
    """Heartbeats are gathered for this long and written together."""
    publish_every: float = 0.25
    """Progress is published at most this often per operation."""
    driven_at_once: int = 1000
    """Operations one replica drives at a time; more wait for a lease."""
    retention: float = 7 * 86400.0
    """How long ended things stay readable."""
    orphans_floor: int = 5
    orphans_share: float = 0.2
    """More orphans than max(floor, share of known nodes) are a sign that we are wrong, not they."""
