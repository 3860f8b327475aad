"""The tiny size: every benchmark runs to its end within seconds, and its figures mean nothing.

`make check` runs each benchmark like this, so that none stops working unnoticed.
"""

import importlib
from collections.abc import Mapping

TINY: Mapping[str, Mapping[str, object]] = {
    "claims": {"NODES": 64, "CLAIMERS": 4},
    "dynamodb": {"NODES": 8, "CLAIMERS": 2},
    "postgres": {"NODES": 64, "CLAIMERS": 4, "CONNECTIONS": 2},
    "replicas": {"PROVISIONS": 4, "IN_FLIGHT": 2, "WARMING": 1, "STEADY": 2},
    "takeover": {"TIMES": 1},
    "provisions": {"PROVISIONS": 8},
    "fleet": {"COUNT": 2, "ROUNDS": 2},
    "simulation": {"NODES": 4, "HOURS": 0.02},
    "controllers": {"NODES": 100},
    "health_sweep": {"SIZES": (2_000, 4_000), "TIMES": 1, "ROUNDS": 1},
    "startup": {"RUNS": 1},
    "heartbeats": {"NODES": 16, "CONNECTIONS": 4, "SECONDS": 0.2, "TURNS": 1},
    "handover": {"CALLERS": 1, "EACH": 2, "ROUNDS": 1, "ALONE": 1, "COLD": 1, "IDLE": 0.5},
    "provision_load": {"PROVISIONS": 4, "SPARE": 2, "IN_FLIGHT": 2},
    "growth": {"KNOWN": (4, 8), "WORKING": 4, "PROVISIONS": 2, "CALLERS": 1, "IDLE": 0.5},
    "replica_beats": {"NODES": 16, "EVERY": 0.5, "SECONDS": 1.0},
    "reconnects": {"NODES": 16, "PROVISIONS": 2},
    "connected_nodes": {"NODES": 16, "EVERY": 0.5, "SETTLE": 1.0, "SECONDS": 2.0},
    "probes": {"SERVICES": 10, "EVERY": 2.0, "SETTLE": 1.0, "SECONDS": 1.0},
    "containers": {"ROUNDS": 1},
    "microvms": {"ROUNDS": 1},
    "ssh_hosts": {"NODES": 2, "HOSTS": 2, "ROUNDS": 1},
    "telemetry": {"NODES": 4, "CALLERS": 1, "CYCLES": 2, "TURNS": 1, "SETTLE": 0.5, "MESSAGES": 60_000},
    "runners": {"EACH": 2, "ROUNDS": 2},
    "shell_echo": {"KEYS": 5},
    "scale_sets": {"ROUNDS": 2, "NODES": 2, "JOBS": 4, "IDLE": 0.5},
}


def shrink(name: str) -> None:
    """Make one benchmark tiny, for as long as this process lives."""
    parts = [name, "claims"] if name == "postgres" else [name]  # which shares what it prepares
    for part in parts:
        module = importlib.import_module(f"bench.{part}")
        for constant, value in TINY[name].items():
            if part == name or hasattr(module, constant):
                setattr(module, constant, value)
