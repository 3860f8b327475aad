"""The kinds of operations that this program knows, and the class of each one's request.

During a rolling upgrade a newer replica may write a kind that this one doesn't know. Such an operation is
left out of lists, driven by others, and can't be shown by itself.
"""

from muster.domain.errors import StoreUnavailable
from muster.domain.operation import Kind
from muster.domain.requests import (
    ClusterCreateRequest,
    ClusterDeleteRequest,
    ProvisionRequest,
    RefillRequest,
    ReleaseRequest,
    Request,
    RunRequest,
)

REQUESTS: dict[str, type[Request]] = {
    Kind.PROVISION.value: ProvisionRequest,
    Kind.RELEASE.value: ReleaseRequest,
    Kind.REFILL.value: RefillRequest,
    Kind.RUN.value: RunRequest,
    Kind.CLUSTER_CREATE.value: ClusterCreateRequest,
    Kind.CLUSTER_DELETE.value: ClusterDeleteRequest,
}


def request_class(kind: str) -> type[Request]:
    """Raises StoreUnavailable: another replica can."""
    if kind not in REQUESTS:
        why = (
            f"the operation is of kind {kind!r}, which this version of Muster doesn't know;"
            " ask a replica that was upgraded already"
        )
        raise StoreUnavailable(f"cannot read an operation: {why}", why=why)
    return REQUESTS[kind]
