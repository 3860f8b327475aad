"""The audit after a storm: what was promised, beside what was seen."""

import itertools
import threading
from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from muster.domain.settings import Settings
from tests.e2e.site import until
from tools.storm.callers import Ledger
from tools.storm.servers import Servers

SAMPLE_EVERY = 0.25


class MachineSampler:
    def __init__(self, servers: Servers, *, over: threading.Event) -> None:
        self._servers = servers
        self._over = over
        self.samples = 0
        self.most = 0
        """The most machines that were alive at once."""

    def watch(self) -> None:
        while not self._over.wait(SAMPLE_EVERY):
            self.samples += 1
            self.most = max(self.most, len(self._servers.machines()))


def longest_gap(successes: list[float], began: float, ended: float) -> float:
    """Return the longest time without a success, the storm's own beginning and end included."""
    moments = [began, *sorted(each for each in successes if each <= ended), ended]
    return max(later - earlier for earlier, later in itertools.pairwise(moments))


ENDS_WITHIN = Settings().lease + 30.0
"""Seconds after its deadline by which an operation has ended. A dead leader's lease must lapse first.
Then another server looks, decides and writes, on a machine under load."""
GAP_MOST = 30.0
"""With room free, some request succeeds at least this often."""
AGREE_WITHIN = 120.0


@dataclass(slots=True)
class Report:
    store: str
    replicas: int
    seed: int
    minutes: float
    faults: dict[str, int]
    operations: dict[str, int]
    reasons: dict[str, int]
    refusals: dict[str, int]
    successes: int
    longest_gap: float
    machines_most: int
    cap: int
    samples: int
    latest_end: float
    """Seconds by which an operation outlived its deadline, at most. Negative: all ended before."""
    broken: list[str] = field(default_factory=list)

    def lines(self) -> list[str]:
        """Return the summary for people."""
        return [
            f"storm: {self.store}, {self.replicas} server(s), seed {self.seed}, {self.minutes:g} min",
            f"  faults      {_told(self.faults)}",
            f"  operations  {_told(self.operations)}",
            f"  failures    {_told(self.reasons)}; refused: {_told(self.refusals)}",
            f"  progress    {self.successes} successes, gaps ≤ {self.longest_gap:.1f} s (limit {GAP_MOST:g})",
            f"  caps        at most {self.machines_most} machines in {self.samples} samples (cap {self.cap})",
            f"  ends        the latest at its deadline {self.latest_end:+.1f} s (limit {ENDS_WITHIN:+g} s)",
            *(f"  BROKEN      {each}" for each in self.broken),
            "  " + ("FAILED" if self.broken else "passed"),
        ]


def audit(report: Report, servers: Servers, ledger: Ledger, witness: MachineSampler) -> None:
    """Fill in what the storm broke."""
    lost = sorted(set(ledger.acknowledged) - set(ledger.ended))
    if lost:
        report.broken.append(f"{len(lost)} acknowledged operations did not end: {', '.join(lost[:5])}")
    if report.latest_end > ENDS_WITHIN:
        report.broken.append(f"an operation ended {report.latest_end:.0f} s after its deadline")
    if report.longest_gap > GAP_MOST:
        report.broken.append(f"no request succeeded for {report.longest_gap:.0f} s")
    if witness.most > report.cap:
        report.broken.append(f"{witness.most} machines lived at once; the cap is {report.cap}")
    _try(report, "the process table and the records differ", lambda: _agree(servers))
    _try(report, "the books are wrong", servers.verify)


def _agree(servers: Servers) -> None:
    """Compare the records with the process table, read between two equal looks at it."""

    def same() -> bool:
        before, recorded, after = servers.machines(), servers.recorded(), servers.machines()
        return before == recorded == after

    until(same, "the process table and the records to agree", AGREE_WITHIN)


def _try(report: Report, what: str, act: Any) -> None:
    try:
        act()
    except Exception as error:  # whatever it is, it is the storm's finding
        report.broken.append(f"{what}: {type(error).__name__}: {str(error)[-2000:]}")


def latest_end(ledger: Ledger) -> float:
    """Return by how many seconds the latest operation missed its deadline; negative if none did."""
    late = [
        (_time(each["ended_at"]) - _time(each["deadline_at"])).total_seconds()
        for each in ledger.ended.values()
    ]
    return max(late, default=0.0)


def _time(text: str) -> datetime:
    return datetime.fromisoformat(text)


def outcomes(ledger: Ledger) -> tuple[dict[str, int], dict[str, int]]:
    """Return how often each kind ended how, and the reasons of what failed."""
    ends = Counter(f"{each['kind']} {each['status']}" for each in ledger.ended.values())
    reasons = Counter(
        str((each.get("error") or {}).get("reason") or (each.get("error") or {}).get("code"))
        for each in ledger.ended.values()
        if each["status"] == "failed"
    )
    return dict(sorted(ends.items())), dict(sorted(reasons.items()))


def _told(counts: dict[str, int]) -> str:
    return ", ".join(f"{count} {name}" for name, count in counts.items()) or "none"
