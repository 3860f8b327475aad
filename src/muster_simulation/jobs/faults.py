"""What goes wrong between Muster and GitHub, as data: probabilities per request, ranges in seconds."""

from dataclasses import dataclass

Range = tuple[float, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class GitHubFaults:
    latency: Range = (0.01, 0.1)
    """Each way of a request."""
    lost_request: float = 0.0
    """Never arrives; the caller waits for its timeout."""
    lost_reply: float = 0.0
    """It happened; the caller waits for its timeout."""
    refused: float = 0.0
    """Answered with 429, 500 or 503; nothing happened."""
    blows: float = 0.0
    """The replica dies or stands still just before its request leaves, or just after the answer came."""
    troubles: float = 0.0
    """Per hour: sessions are dropped, sets vanish, numbers begin again, messages repeat, tokens end."""
    lost_webhooks: float = 0.0
    repeated_webhooks: float = 0.0
    forged_webhooks: float = 0.0
    late: Range = (0.0, 0.5)
    """From an event to its delivery. A wide range changes their order."""


CALM = GitHubFaults()


@dataclass(frozen=True, slots=True, kw_only=True)
class JobPlan:
    """What comes to GitHub, and how GitHub behaves."""

    faults: GitHubFaults
    set_template: str
    """Its jobs come by a scale set."""
    label_template: str
    """Its jobs come by webhooks."""
    max_runners: int
    offers: bool
    """Jobs are offered and must be acquired, as on GHES."""
    every: float
    """Mean seconds between two runs of workflows."""
    largest: int
    """Jobs of one run, at most."""
    lasts: Range
    """Seconds that a job takes."""
    reruns: int
    """How often runs are begun anew whose machines were lost, as the templates say."""
    cancelled: float = 0.1
    """The share of runs that people cancel."""
    replays: float = 0.1
    """The share of deliveries after which all of the last ones come once more, at once."""
