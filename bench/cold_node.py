"""One node from nothing to ready, and back to nothing: what benchmarks of providers repeat."""

import time

from muster.client import SyncClient, calls
from muster.domain.requests import ProvisionRequest
from tests.e2e.site import until

PATIENCE = 120.0


def provisioned(client: SyncClient, template: str, run: str) -> float:
    """Provision and release; the seconds until the node was ready."""
    began = time.perf_counter()
    asked = client.send(calls.provision(ProvisionRequest(template=template, count=1, run=run)))
    for _ in client.stream(calls.watch(asked.operation_id)):
        pass  # until its end
    took = time.perf_counter() - began
    operation = client.send(calls.operation(asked.operation_id))
    if operation.status != "succeeded":
        raise RuntimeError(f"cannot provision: {operation.error}")
    client.send(calls.release(operation_id=asked.operation_id))
    states = ("running", "releasing", "terminating")
    until(lambda: not client.send(calls.nodes(state=states)).items, "the end of the node", PATIENCE)
    return took
