"""Watch an operation to its end, for as long as the client waits, and print its outcome.

The work is the server's. Leaving (Ctrl-C, or `--wait` ran out) stops nothing and prints how to come back.
"""

import queue
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from muster.cli import output, progress_views
from muster.cli.connection import calls
from muster.cli.durations import format_clock
from muster.cli.exits import Detached, OperationFailed, OutOfPatience
from muster.domain.operation import Status

if TYPE_CHECKING:
    from muster.cli.progress_views import View
    from muster.client import SyncClient
    from muster.wire.operations import Operation, Progress


class Patience:
    """How long the client waits in all; None: as long as it takes."""

    def __init__(self, seconds: float | None) -> None:
        self._seconds = seconds
        self._until = None if seconds is None else time.monotonic() + seconds

    def left(self) -> float | None:
        return None if self._until is None else max(0.0, self._until - time.monotonic())

    def over(self, how: str) -> OutOfPatience:
        return OutOfPatience(
            f"stopped waiting after {format_clock(self._seconds or 0.0)}; the work continues: {how}"
        )


def watch_hint(operation_id: str) -> str:
    return f"watch it with `muster operations watch {operation_id}`"


@contextmanager
def detachable(how: str) -> Iterator[None]:
    """Turn Ctrl-C into Detached, which says how to come back."""
    try:
        yield
    except KeyboardInterrupt:
        raise Detached(f"detached; the work continues: {how}") from None


def progress_of(
    client: "SyncClient", operation_id: str, patience: Patience, over: threading.Event | None = None
) -> Iterator["Progress"]:
    """Yield an operation's progress to its end, then set `over`. Raises OutOfPatience."""
    waiting: queue.SimpleQueue[Progress | Exception | None] = queue.SimpleQueue()

    def read() -> None:
        # A thread of its own, so that neither patience nor Ctrl-C has to wait for the network.
        try:
            for progress in client.stream(calls.watch(operation_id)):
                waiting.put(progress)
            waiting.put(None)
        except Exception as error:
            waiting.put(error)
        finally:
            if over is not None:
                over.set()

    threading.Thread(target=read, daemon=True).start()
    while True:
        try:
            item = waiting.get(timeout=patience.left())
        except queue.Empty:
            raise patience.over(watch_hint(operation_id)) from None
        if item is None:
            return
        if isinstance(item, Exception):
            raise item
        yield item


def watch(client: "SyncClient", operation: "Operation", view: "View", patience: Patience) -> "Operation":
    """Show an operation to its end; gives its final record."""
    with detachable(watch_hint(operation.operation_id)), view:
        for progress in progress_of(client, operation.operation_id, patience):
            view.show(progress)
    return client.send(calls.operation(operation.operation_id))


def finish_or_detach(
    client: "SyncClient",
    operation: "Operation",
    *,
    wait: float | None,
    detach: bool,
    done: Callable[["Operation"], None],
    good: tuple[Status, ...] | None = None,
) -> None:
    """Watch an operation to its end and print its outcome, or print its id if `detach`.

    Calls `done` for people, prints the record for programs. Raises OperationFailed unless the operation
    succeeded or ended as one of `good`.
    """
    if detach:
        output.show(operation, operation.operation_id, f"  {watch_hint(operation.operation_id)}")
        return
    view = progress_views.choose_view(elapsed=operation.elapsed_seconds)
    ended = watch(client, operation, view, Patience(wait))
    if output.wants_json():
        output.print_json(ended)
    if ended.status not in (good or (Status.SUCCEEDED,)):
        raise OperationFailed(ended)
    if not output.wants_json():
        done(ended)
