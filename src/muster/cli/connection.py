"""Find the server and the token: the environment, a context, or a server on this machine."""

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeVar

from muster.cli import progress_views
from muster.cli.exits import Misspelt, UsageProblem
from muster.domain import traces
from muster.domain.errors import Ambiguous, MusterError, NotFound
from muster.domain.operation import Kind

if TYPE_CHECKING:
    from pathlib import Path

    from muster.client import SyncClient
    from muster.client import calls as calls  # noqa: PLC0414 — commands import it from here
    from muster.client.calls import Call
    from muster.config import Connection
    from muster.wire.operations import Operation
else:

    class _Calls:
        """`muster.client.calls`, imported with the first call: help and refusals of bad input need none."""

        def __getattr__(self, name: str) -> Any:
            return getattr(import_module("muster.client.calls"), name)

    calls = _Calls()

T = TypeVar("T")
_OPERATION = re.compile(r"op-[0-9a-z]{12,40}", re.ASCII)
_NODE = re.compile(r"node-[0-9a-z]{12,40}", re.ASCII)
_COMMAND = re.compile(r"(?:cmd-[0-9a-z]{12,64}|op-[0-9a-z]{12,40})\.\d{1,6}", re.ASCII)
_PAGE = 500
_LOOKED_AT = 20
"""Operations of a run among which the one that was asked for is found."""


class AskedServer:
    """The server that this process asked; one process is one command."""

    url: str | None = None


@contextmanager
def open_client(data_dir: "Path | None" = None) -> Iterator["SyncClient"]:
    """Open a client of the server. `data_dir` is the server's data directory, if its settings were read."""
    from muster.client import SyncClient, Unauthenticated
    from muster.config import find_server

    found = find_server(os.environ, data_dir)
    if not found.elsewhere and found.token is None and not found.data_dir.exists():
        raise UsageProblem(
            f"cannot find a server: {found.data_dir} does not exist; start a server with `muster serve`,"
            " log in to one with `muster login URL`, or set MUSTER_SERVER and MUSTER_TOKEN"
        )
    if found.token is not None and not (found.token.isascii() and found.token.isprintable()):
        raise UsageProblem("cannot use MUSTER_TOKEN: a token has only printable ASCII characters")
    AskedServer.url = found.url
    # What CI systems hand to their jobs, so that machines are a part of the job's trace.
    parent = traces.parse(os.environ.get("TRACEPARENT", ""))
    with SyncClient(
        found.url,
        found.token,
        on_change=progress_views.report_connection,
        ca_file=found.ca_file,
        trace="" if parent is None else str(parent),
    ) as client:
        try:
            yield client
        except Unauthenticated as error:
            raise Unauthenticated(_who(str(error), found)) from error
        except NotFound as error:
            raise _nearly(client, error) or error from error.__cause__


def ask(call: "Call[T]") -> T:
    """Send one call to the server, and return its answer."""
    with open_client() as client:
        return client.send(call)


def _nearly(client: "SyncClient", error: NotFound) -> NotFound | None:
    """Return an error that names the template that was probably meant."""
    from difflib import get_close_matches

    if error.what != "template":
        return None
    try:
        names = [template.name for template in client.send(calls.templates())]
    except MusterError:
        return None
    close = get_close_matches(error.name, names, n=1, cutoff=0.6)
    return Misspelt(error.what, error.name, close[0]) if close else None


def _who(said: str, found: "Connection") -> str:
    if found.withheld:
        why = "the local token is not sent to a server that MUSTER_SERVER names"
        return f"cannot ask {found.url} without a token: {why}; set MUSTER_TOKEN, or unset MUSTER_SERVER"
    if found.context is not None and not os.environ.get("MUSTER_TOKEN"):
        return _logged_out(said, found)
    if found.token is None:
        return f"cannot ask {found.url} without a token: set MUSTER_TOKEN (there is none in {found.data_dir})"
    if "Authorization" not in said:
        return said
    held = "MUSTER_TOKEN" if os.environ.get("MUSTER_TOKEN") else str(found.data_dir / "admin.token")
    return f"cannot ask {found.url}: it doesn't know the token in {held}; set MUSTER_TOKEN to a valid one"


def is_node(name: str) -> bool:
    return _NODE.fullmatch(name) is not None


def _logged_out(said: str, found: "Connection") -> str:
    again = f"run `muster login {found.url} --name {found.context}`"
    if found.token is None:
        return f"cannot ask {found.url}: you are logged out of the context {found.context}; {again}"
    if "Authorization" in said:
        return f"cannot ask {found.url}: it doesn't know the login of the context {found.context}; {again}"
    return f"{said} ({again})"


def is_operation(name: str) -> bool:
    return _OPERATION.fullmatch(name) is not None


def is_command(name: str) -> bool:
    return _COMMAND.fullmatch(name) is not None


def find_operation(client: "SyncClient", name: str) -> "Operation":
    """Return an operation by its id, or of a run: its `run` operation, else its newest provision."""
    if is_operation(name):
        return client.send(calls.operation(name))
    found = client.send(calls.operations(run=name, limit=_LOOKED_AT)).items
    if not found:
        raise NotFound("an operation or run", name)
    for kind in (Kind.RUN, Kind.PROVISION):
        for operation in found:
            if operation.kind == kind:
                return operation
    return found[0]


def find_provision(client: "SyncClient", name: str) -> str:
    """Return the id of a provision: the given id, or the only one of a run that has nodes in use."""
    if is_operation(name):
        return name
    ids: dict[str, None] = {}
    cursor: str | None = None
    while True:
        page = client.send(calls.nodes(state=("running", "failed"), cursor=cursor, limit=_PAGE))
        ids.update((node.operation_id, None) for node in page.items if node.run == name and node.operation_id)
        cursor = page.next
        if cursor is None:
            break
    if not ids:
        raise NotFound("running nodes of run", name)
    if len(ids) > 1:
        raise Ambiguous(name, tuple(ids))
    return next(iter(ids))
