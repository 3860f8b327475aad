"""Follow an operation that was just accepted, or leave it, and print its outcome."""

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from muster.client import SyncClient
    from muster.domain.operation import Status
    from muster.wire.operations import Operation


def followed(
    client: "SyncClient",
    operation: "Operation",
    *,
    wait: float | None,
    detach: bool,
    done: Callable[["Operation"], None],
    good: "tuple[Status, ...] | None" = None,
) -> None:
    """Raises OperationFailed unless it succeeded (or ended as one of the `good`); tells what is `done` for
    people, or prints the record for programs."""
    from muster.cli import printing, views
    from muster.cli.exits import OperationFailed
    from muster.cli.watching import Patience, again, watch
    from muster.domain.operation import Status

    if detach:
        if printing.wants_json():
            printing.document(operation)
        else:
            printing.say(operation.operation_id)
            printing.say(f"  {again(operation.operation_id)}")
        return
    view = views.chosen(elapsed=operation.elapsed_seconds)
    ended = watch(client, operation, view, Patience(wait))
    if printing.wants_json():
        printing.document(ended)
    if ended.status not in (good or (Status.SUCCEEDED,)):
        raise OperationFailed(ended)
    if not printing.wants_json():
        done(ended)
