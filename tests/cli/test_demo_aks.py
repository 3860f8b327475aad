import pytest

from muster.cli import demo_aks
from tests.cli.terminal import Terminal

HASTE = 0.1
"""Of the demo's own times: nobody watches."""


def test_clusters_come_fail_are_cancelled_and_go_without_a_trace(
    alone: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(demo_aks, "PACES", {name: HASTE * each for name, each in demo_aks.PACES.items()})
    monkeypatch.setattr(demo_aks, "POLL_EVERY", 0.1)
    monkeypatch.setattr(demo_aks, "CANCEL_AFTER", 0.5)
    said = alone.muster("demo-aks")
    assert said.code == 0, said.err
    assert "Step 5/5 · Cluster ready" in said.out
    assert "80 vCPUs short: 84 left of 164 wanted; 6 of the 11 nodes would fit" in said.out
    assert "Undoing 3/4 · Deleting the AKS cluster" in said.out
    assert said.out.splitlines()[-1].endswith("· failed, told why · cancelled · 0 left in Azure")
