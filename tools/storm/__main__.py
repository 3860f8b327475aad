"""`python -m tools.storm`: run one storm, print its progress and a summary, write build/storm.json."""

import argparse
import json
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path

import httpx

from tools.storm.audit import MachineSampler, Report, audit, latest_end, longest_gap, outcomes
from tools.storm.callers import CALLERS, MOST, TEMPLATE, Caller, Ledger
from tools.storm.faults import Faults
from tools.storm.servers import STORES, Servers, started

CAP = CALLERS * MOST + 4
"""Room for all callers, and for machines that died and are still being cleared."""
REPLICAS_MOST = 9
OUTPUT = Path("build/storm.json")
TELL_EVERY = 10.0
CALM_WITHIN = 240.0
"""How long the callers may take to finish what they began when the faults have stopped."""


def main(argv: Sequence[str]) -> int:
    given = _arguments(argv)
    replicas = 1 if given.store == "sqlite" else given.replicas
    root = Path(tempfile.mkdtemp(prefix="muster-storm-"))
    with started(root, store=given.store, replicas=replicas) as servers:
        _prepare(servers)
        report = _storm(servers, given.store, given.minutes, given.seed)
    OUTPUT.parent.mkdir(exist_ok=True)
    OUTPUT.write_text(json.dumps(asdict(report), indent=2) + "\n")
    print("\n".join(report.lines()), flush=True)
    if report.broken:
        print(f"  the servers' logs and stores are kept in {root}", flush=True)
        return 1
    shutil.rmtree(root, ignore_errors=True)
    return 0


def _arguments(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make storm", description=__doc__)
    parser.add_argument("--minutes", type=float, default=8.0, help="how long the faults last")
    parser.add_argument("--store", choices=STORES, default="sqlite")
    parser.add_argument("--replicas", type=int, default=3, help="servers; SQLite has one")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args(argv)
    if not 0 < given.minutes <= 24 * 60:
        parser.error("--minutes must be above 0 and at most 1440")
    if not 1 <= given.replicas <= REPLICAS_MOST:
        parser.error(f"--replicas must be from 1 to {REPLICAS_MOST}")
    return given


def _prepare(servers: Servers) -> None:
    headers = {"Authorization": f"Bearer {servers.token}"}
    with httpx.Client(base_url=servers.urls[0], headers=headers, timeout=20.0, trust_env=False) as http:
        http.put("/api/v1/installation", json={"max_nodes": CAP}).raise_for_status()
        template = {"provider": "process", "resource_class": "small", "max_nodes": CAP, "min_idle": 2}
        http.put(f"/api/v1/templates/{TEMPLATE}", json=template).raise_for_status()


def _storm(servers: Servers, store: str, minutes: float, seed: int) -> Report:
    storm_over, callers_over = threading.Event(), threading.Event()
    ledger = Ledger()
    weather = Faults(servers, seed=seed, over=storm_over)
    witness = MachineSampler(servers, over=callers_over)
    began = time.monotonic()
    urls, token = servers.urls, servers.token
    callers = [
        Caller(urls, token, number=number, seed=seed, ledger=ledger, over=callers_over)
        for number in range(CALLERS)
    ]
    with ThreadPoolExecutor(32) as pool:
        acts: list[Callable[[], None]] = [*weather.threads(), witness.watch]
        hurting = [pool.submit(act) for act in acts]
        calling = [pool.submit(caller.live) for caller in callers]
        _tell(ledger, weather, began, minutes, [*hurting, *calling])
        storm_over.set()
        ended = time.monotonic()
        callers_over.set()
        broken = [*_failures(hurting, "the storm itself"), *_failures(calling, "a caller")]
    ends, reasons = outcomes(ledger)
    report = Report(
        store=store,
        replicas=len(servers.sites),
        seed=seed,
        minutes=minutes,
        faults=dict(sorted(weather.struck.items())),
        operations=ends,
        reasons=reasons,
        refusals=ledger.refusals,
        successes=len(ledger.successes),
        longest_gap=longest_gap(ledger.successes, began, ended),
        machines_most=witness.most,
        cap=CAP,
        samples=witness.samples,
        latest_end=latest_end(ledger),
        broken=broken,
    )
    audit(report, servers, ledger, witness)
    return report


def _tell(
    ledger: Ledger, weather: Faults, began: float, minutes: float, working: Sequence["Future[None]"]
) -> None:
    """Print a line now and then until the time is over, or until something broke."""
    until = began + minutes * 60.0
    while (left := until - time.monotonic()) > 0 and not any(each.done() for each in working):
        time.sleep(min(left, TELL_EVERY))
        print(
            f"  {time.monotonic() - began:4.0f} s: {len(ledger.ended)} of {len(ledger.acknowledged)}"
            f" operations ended, {len(ledger.successes)} successes, {weather.struck.total()} faults",
            flush=True,
        )


def _failures(futures: Sequence["Future[None]"], what: str) -> list[str]:
    found: list[str] = []
    for each in futures:
        try:
            each.result(CALM_WITHIN)
        except Exception as error:  # whatever it is, it is the storm's finding
            found.append(f"{what}: {type(error).__name__}: {error}")
    return found


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
