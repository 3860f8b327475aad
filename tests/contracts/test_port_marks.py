"""Every verb of a store port says whether it reads or writes, and each store agrees with its port."""

import pytest

from muster.integrations.aks.azure import Azure
from muster.ports.access import AccessStore
from muster.ports.cluster_store import ClusterStore
from muster.ports.clusters import ClusterProvider
from muster.ports.commands import CommandStore
from muster.ports.jobs import JobStore
from muster.ports.messages import MessageStore
from muster.ports.overview import OverviewStore
from muster.ports.store import Store
from muster.ports.verbs import marks
from muster.stores.sql.access import SqlAccess
from muster.stores.sql.clusters import SqlClusters
from muster.stores.sql.commands import SqlCommands
from muster.stores.sql.jobs import SqlJobs
from muster.stores.sql.messages import SqlMessages
from muster.stores.sql.overview import SqlOverview
from muster.stores.sql.store import SqlStore

PORTS = (
    Store,
    CommandStore,
    AccessStore,
    OverviewStore,
    ClusterStore,
    JobStore,
    MessageStore,
    ClusterProvider,
    Azure,
)


@pytest.mark.parametrize("port", PORTS, ids=lambda port: port.__name__)
def test_every_verb_of_a_port_is_marked(port: type) -> None:
    assert [verb for verb, mark in marks(port).items() if mark is None] == []
    assert marks(port)


@pytest.mark.parametrize(
    ("port", "adapter"),
    [
        (Store, SqlStore),
        (CommandStore, SqlCommands),
        (AccessStore, SqlAccess),
        (OverviewStore, SqlOverview),
        (ClusterStore, SqlClusters),
        (JobStore, SqlJobs),
        (MessageStore, SqlMessages),
    ],
    ids=lambda each: each.__name__,
)
def test_a_verb_writes_in_sql_only_if_its_port_says_so(port: type, adapter: type) -> None:
    found = marks(adapter)
    assert {verb: found[verb] for verb in marks(port)} == marks(port)
