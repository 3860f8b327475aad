"""`muster login`: sign this terminal in at a server, and use that server from now on."""

import os
import socket
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from muster.cli import output
from muster.cli.connection import AskedServer
from muster.cli.exits import UsageProblem
from muster.cli.output import timestamp

if TYPE_CHECKING:
    from muster.client import SyncClient
    from muster.config.contexts import Context, Contexts
    from muster.wire.tokens import Identity

_MACHINE_MOST = 63


def login(
    url: Annotated[
        str | None,
        typer.Argument(
            metavar="[URL]", help="e.g. https://muster.example.com. (default: of the context in use)"
        ),
    ] = None,
    *,
    name: Annotated[
        str | None,
        typer.Option("--name", metavar="NAME", help="Of the context. (default: the server's host)"),
    ] = None,
    token: Annotated[
        bool, typer.Option("--token", help="Log in with a token from standard input, not by a browser.")
    ] = False,
    ca_file: Annotated[
        Path | None,
        typer.Option("--ca-file", metavar="FILE", help="The certificate of your own authority, in PEM."),
    ] = None,
) -> None:
    """Log in to a server: confirm a code in the browser, on any machine. The login is kept for you alone."""
    from muster.client import SyncClient, calls
    from muster.config.contexts import ContextsFile

    file = ContextsFile(os.environ)
    asked = _asked(file.read(), url, name, ca_file)
    AskedServer.url = asked.url
    _warn_plain(asked.url)
    trusted = Path(asked.ca_file) if asked.ca_file else None
    secret = _typed() if token else ""
    if not token:
        with SyncClient(asked.url, ca_file=trusted) as client:
            secret = _confirmed(client)
    with SyncClient(asked.url, secret, ca_file=trusted) as client:
        who = client.send(calls.whoami())
    context = _logged_in(asked, secret, who)
    with file.changing() as held:
        held[0] = held[0].kept(context)
    if output.wants_json():
        output.print_json({"context": context.name, "server": context.url, **output.plain(who)})
    else:
        left = f" for {output.time_left(who.expires_at)}" if who.expires_at is not None else ""
        output.say(f"✔ logged in to {context.url} as {who.name} ({who.role}){left}")
        output.say(f"  context {context.name} is in use; others: `muster contexts`")


def _asked(contexts: "Contexts", url: str | None, name: str | None, ca_file: Path | None) -> "Context":
    """Return the context to log in to, without its secret."""
    from dataclasses import replace
    from urllib.parse import urlsplit

    from muster.config.contexts import LOCAL, Context, check_name

    if url is None:
        current = name or os.environ.get("MUSTER_CONTEXT") or contexts.current
        if current == LOCAL:
            raise UsageProblem("cannot log in: name a server, e.g. `muster login https://muster.example.com`")
        context = contexts.find(current)
    else:
        if "://" not in url:
            raise UsageProblem(f"cannot log in to {url}: write its address with https:// or http://")
        address = url.rstrip("/")
        chosen = check_name(name or _host_name(urlsplit(address).netloc))
        there = [each for each in contexts.every if each.name == chosen]
        if there and there[0].url != address:
            raise UsageProblem(
                f"cannot log in as context {chosen}: that is {there[0].url}; choose another with --name, or"
                f" remove it with `muster contexts remove {chosen}`"
            )
        context = there[0] if there else Context(name=chosen, url=address)
    return context if ca_file is None else replace(context, ca_file=str(ca_file.absolute()))


def _host_name(netloc: str) -> str:
    return netloc.rpartition("@")[2].strip("[]").replace("]:", "-").replace(":", "-")[:_MACHINE_MOST]


def _warn_plain(url: str) -> None:
    from urllib.parse import urlsplit

    from muster.config.values import LOOPBACK

    parts = urlsplit(url)
    if parts.scheme == "http" and parts.hostname not in LOOPBACK:
        output.print_notice(
            "plain_http", f"careful: {url} is plain HTTP; others can read the login on its way"
        )


def _typed() -> str:
    """Read a token: without an echo from a person, else from standard input."""
    text = typer.prompt("Token", hide_input=True, err=True) if sys.stdin.isatty() else sys.stdin.readline()
    secret = str(text).strip()
    if not secret or not secret.isascii() or not secret.isprintable():
        raise UsageProblem("cannot log in: a token has only printable ASCII characters, on one line")
    return secret


def _confirmed(client: "SyncClient") -> str:
    """Show a code, wait until a person has confirmed it, and return the secret of this login."""
    from muster.client import CannotReach, ServerProblem, calls

    begun = client.send(calls.begin_device(socket.gethostname()[:_MACHINE_MOST] or "a terminal"))
    output.print_notice(
        "confirm",
        f"Open {begun.verification_uri_complete}\nand confirm the code {begun.user_code}"
        f" (within {begun.expires_in / 60:g} minutes).",
    )
    latest = time.monotonic() + begun.expires_in
    while time.monotonic() < latest:
        time.sleep(begun.interval)
        try:
            return client.send(calls.device_token(begun.device_code)).access_token
        except ServerProblem as error:
            if error.code != "authorization_pending":
                raise
        except CannotReach:
            continue  # it may be restarting; the code outlives that
    raise UsageProblem("cannot log in: no one confirmed the code in time; run `muster login` again")


def _logged_in(asked: "Context", secret: str, who: "Identity") -> "Context":
    from dataclasses import replace

    return replace(
        asked, token=secret, person=who.name, role=str(who.role), expires_at=timestamp(who.expires_at)
    )
