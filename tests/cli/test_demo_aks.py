from typing import NoReturn

import httpx
import pytest

from muster.client import calls
from muster.integrations.process.demo_site import Site
from muster_simulation import demo_aks
from tests.cli.terminal import Terminal

HASTE = 0.05
"""Of the demo's own times: no person watches."""


@pytest.fixture(autouse=True)
def _hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo_aks, "PACES", {name: HASTE * each for name, each in demo_aks.PACES.items()})
    monkeypatch.setattr(demo_aks, "POLL_EVERY", 0.1)
    monkeypatch.setattr(demo_aks, "CANCEL_AFTER", 0.3)


def test_kept_it_leaves_server_and_page_up_until_it_is_interrupted(
    alone: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    urls: list[str] = []

    def interrupted(site: Site) -> NoReturn:
        urls.append(site.url)
        assert httpx.get(f"{site.url}/clusters").status_code in (200, 404), "404: the page isn't built here"
        with site.client() as client:
            (left,) = client.send(calls.clusters(state=[], limit=10)).items
            assert (left.name, left.state) == ("blast-1", "ready")
        raise KeyboardInterrupt

    monkeypatch.setattr(demo_aks, "_until_interrupted", interrupted)
    said = alone.muster("demo-aks", KEEP="1")
    assert said.code == 0, said.err
    assert f"left up: {urls[0]}/clusters" in said.out
    with pytest.raises(httpx.ConnectError):
        httpx.get(urls[0])


def test_clusters_come_fail_are_cancelled_and_go_without_a_trace(alone: Terminal) -> None:
    said = alone.muster("demo-aks")
    assert said.code == 0, said.err
    assert "Step 5/5 · Cluster ready" in said.out
    assert "80 vCPUs short: 84 left of 164 wanted; 6 of the 11 nodes would fit" in said.out
    assert "Undoing 3/4 · Deleting the AKS cluster" in said.out
    assert said.out.splitlines()[-1].endswith("· failed, told why · cancelled · 0 left in Azure")
