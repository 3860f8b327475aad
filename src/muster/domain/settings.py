"""Settings of one installation that are not limits of a node's or operation's time."""

from dataclasses import dataclass, field

from muster.domain import checks
from muster.domain.deadlines import Limits
from muster.domain.errors import InvalidRequest
from muster.domain.terminal import ShellRules

PRICED_LEASE, PRICED_RENEW_EVERY = 60.0, 15.0
"""Where an engine bills by write."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    limits: Limits = field(default_factory=Limits)
    shells: ShellRules = field(default_factory=ShellRules)
    lease: float = 15.0
    """Long enough that a pause of seconds costs nothing, short enough that a takeover is soon. PRICED_LEASE
    where an engine bills by write."""
    renew_every: float = 5.0
    """A third of the lease: two renewals may fail before it is lost."""
    present_every: float = 2.0
    """How often a replica gives a sign of life to the others."""
    absent_after: float | None = 8.0
    """Silence after which others take over what a replica leads in a queue: the lease is too long for those
    behind it. What is taken by mistake holds nothing, or is fenced. None: there are no others."""
    gone_after: float = 15.0
    """Silence after which others take over all that a replica leads, however long its leases. As long as the
    usual lease, so that every engine takes over at the same time."""
    poll_every: float = 5.0
    """How often a waiting operation looks again without a wake-up."""
    flush_every: float = 1.0
    """Heartbeats are gathered for this long and written together."""
    publish_every: float = 0.25
    """Progress is published at most this often per operation."""
    driven_at_once: int = 1000
    """Operations one replica drives at a time; more wait for a lease."""
    errors_most: int = 5
    """Unforeseen errors in a row after which an operation ends. With the pauses between them some 15 s:
    longer than a hiccup, shorter than a caller's patience."""
    retention: float = 7 * 86400.0
    """How long ended things stay readable."""
    orphans_floor: int = 5
    orphans_share: float = 0.2
    """More orphans than max(floor, share of known nodes) are a sign that we are wrong, not they."""

    def __post_init__(self) -> None:
        for key in (
            "lease",
            "renew_every",
            "present_every",
            "gone_after",
            "poll_every",
            "flush_every",
            "retention",
        ):
            checks.seconds(key, getattr(self, key))
        checks.seconds("publish_every", self.publish_every, zero=True)
        checks.whole("driven_at_once", self.driven_at_once, least=1, most=checks.MACHINES_MAX)
        checks.whole("errors_most", self.errors_most, least=1, most=checks.MACHINES_MAX)
        checks.whole("orphans_floor", self.orphans_floor, least=0, most=checks.MACHINES_MAX)
        checks.share("orphans_share", self.orphans_share)
        if self.absent_after is not None:
            checks.seconds("absent_after", self.absent_after)
        if self.absent_after is not None and self.present_every >= self.absent_after:
            rule = f"must be below absent_after ({self.absent_after:g} s)"
            raise InvalidRequest("present_every", self.present_every, rule)
        if self.absent_after is not None and self.absent_after > self.gone_after:
            rule = f"must not exceed gone_after ({self.gone_after:g} s)"
            raise InvalidRequest("absent_after", self.absent_after, rule)
        if self.renew_every >= self.lease:
            raise InvalidRequest("renew_every", self.renew_every, f"must be below lease ({self.lease:g} s)")
