"""`muster logout`: end the login of a context at its server, and forget its token here."""

import os
from pathlib import Path
from typing import Annotated

import typer

from muster.cli import output
from muster.cli.exits import UsageProblem
from muster.domain.errors import MusterError


def logout(
    context: Annotated[
        str | None, typer.Argument(metavar="[CONTEXT]", help="Which one. (default: the one in use)")
    ] = None,
) -> None:
    """End a login. The context stays, so `muster login` needs no address. A token of an admin stays valid."""
    from dataclasses import replace

    from muster.client import SyncClient, Unauthenticated, calls
    from muster.config.contexts import LOCAL, ContextsFile

    file = ContextsFile(os.environ)
    contexts = file.read()
    name = context or os.environ.get("MUSTER_CONTEXT") or contexts.current
    if name == LOCAL:
        raise UsageProblem("cannot log out of this machine's own server: its token is in its data directory")
    found = contexts.find(name)
    ended, problem = False, ""
    if found.token:
        trusted = Path(found.ca_file) if found.ca_file else None
        try:
            with SyncClient(found.url, found.token, ca_file=trusted) as client:
                ended = client.send(calls.sign_out()).ended
        except Unauthenticated:
            pass  # it had ended before
        except MusterError as error:
            problem = str(error)
    with file.changing() as held:
        gone = replace(held[0].find(name), token="", person="", role="", expires_at="")
        held[0] = replace(held[0].kept(gone), current=held[0].current)
    if problem:
        words = f"the login may still be valid at the server: {problem}; an admin can revoke it"
        output.print_notice("still_valid", words)
    document = {"context": name, "server": found.url, "ended": ended}
    output.show(document, f"✔ logged out of {name} ({found.url})")
