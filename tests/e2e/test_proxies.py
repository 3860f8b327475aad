"""Real agents behind proxies that harm their streams: every hand-over still happens."""

from collections.abc import Callable, Iterator

import pytest

from tests.e2e.proxies import Harm, Proxy
from tests.e2e.site import Site, until

CONFIG = (
    '[server]\npublic_url = "{url}"\n[limits]\nbeat_seconds = 1\nstale_after = 16\n[process]\ncapacity = 8\n'
)


@pytest.fixture
def proxies() -> Iterator[list[Proxy]]:
    """Asked for before the site, so that they go after it."""
    made: list[Proxy] = []
    yield made
    for proxy in made:
        proxy.close()


@pytest.mark.slow
@pytest.mark.parametrize("harm", Harm)
def test_hand_overs_happen_behind_a_proxy_that_harms_streams(
    proxies: list[Proxy], make_site: Callable[..., Site], harm: Harm
) -> None:
    site = make_site()
    proxies.append(Proxy(site.url, harm))
    site.reconfigure(CONFIG.format(url=proxies[0].url))
    site.start().template()
    machines: list[list[str]] = []
    for number in range(2):
        operation = site.provision(2, run=f"run-{number}")
        machines.append(sorted(node.machine_id for node in site.members(operation)))
        assert site.release(operation).status == "succeeded"
    assert machines[0] == machines[1], "the same two nodes each time, none given up"
    often = 5 if harm is Harm.CUTS else 2
    until(lambda: proxies[0].streams >= often, "agents to open their streams, again where they are cut")
