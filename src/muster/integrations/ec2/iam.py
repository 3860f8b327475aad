"""`muster iam`: the rights in AWS that a server and its nodes need, as policies to paste."""

from typing import Annotated

import typer

from muster.cli import output
from muster.cli.connection import calls, open_client
from muster.cli.options import SettingsFile, find_settings_file
from muster.domain import checks
from muster.domain.errors import MusterError

WHO = ("server", "nodes")


def iam(
    who: Annotated[str, typer.Argument(metavar="WHO", help="server or nodes.")] = "server",
    *,
    file: SettingsFile = None,
    installation: Annotated[
        str | None,
        typer.Option(
            "--installation",
            metavar="ID",
            help="The installation of the machines. (default: the running server's)",
        ),
    ] = None,
) -> None:
    """Print the least that a server (or a node) must be allowed in AWS, as an IAM policy."""
    import json
    import os

    from muster.config import load
    from muster.integrations.ec2 import policies

    checks.known("who", who, WHO)
    if who == "nodes":
        policy = policies.for_nodes()
    else:
        config = load(find_settings_file(file), environment=os.environ)
        mine = checks.text("installation", installation) if installation else _installation()
        policy = policies.for_server(
            config.templates,
            installation_id=mine,
            region=config.tables["ec2"].region or "*",
            account=config.tables["ec2"].account,
        )
        given = policies.profiles(config.templates)
        if given:
            names = ", ".join(given)
            typer.echo(f"iam:PassRole: the role of {names} is taken to have its profile's name", err=True)
    output.say(json.dumps(policy, indent=2))


def _installation() -> str:
    """Return the server's installation, or none before its first run."""
    try:
        with open_client() as client:
            return client.send(calls.installation()).id
    except MusterError:
        return ""
