"""Settings of one installation that are not limits of a node's or operation's time."""

from dataclasses import dataclass, field

from muster.domain import checks
from muster.domain.deadlines import Limits
from muster.domain.errors import InvalidRequest


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

    def __post_init__(self) -> None:
        for key in ("lease", "renew_every", "poll_every", "flush_every", "retention"):
            checks.seconds(key, getattr(self, key))
        checks.seconds("publish_every", self.publish_every, zero=True)
        checks.whole("driven_at_once", self.driven_at_once, least=1, most=checks.MACHINES_MAX)
        checks.whole("orphans_floor", self.orphans_floor, least=0, most=checks.MACHINES_MAX)
        checks.share("orphans_share", self.orphans_share)
        if self.renew_every >= self.lease:
            raise InvalidRequest("renew_every", self.renew_every, f"must be below lease ({self.lease:g} s)")
