"""`muster serve`: run the server on this machine, and print how to reach it."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from muster.cli import output
from muster.cli.exits import UsageProblem
from muster.cli.options import find_settings_file

if TYPE_CHECKING:
    from muster.config import Config
    from muster.serve import Serving


def serve(
    *,
    host: Annotated[str | None, typer.Option(help="Where to listen. (default: 127.0.0.1)")] = None,
    port: Annotated[int | None, typer.Option(help="0: any that is free. (default: 8420)")] = None,
    public_url: Annotated[
        str | None,
        typer.Option(
            help="The URL that nodes use; several separated by commas. (default: the address listened on)"
        ),
    ] = None,
    store: Annotated[
        str | None,
        typer.Option(
            help="postgresql://USER@HOST/DATABASE or dynamodb://TABLE?region=REGION, shared with other"
            " replicas; a password is better kept in MUSTER_STORE or PGPASSFILE. (default: SQLite in the data"
            " directory)"
        ),
    ] = None,
    data_dir: Annotated[
        str | None, typer.Option(help="Where everything is kept. (default: the user's data directory)")
    ] = None,
    config: Annotated[
        Path | None, typer.Option("--config", "-f", help="(default: ./muster.toml, if there is one)")
    ] = None,
    log_format: Annotated[str | None, typer.Option(help="text or json. (default: text)")] = None,
    log_level: Annotated[
        str | None, typer.Option(help="debug, info, warning, error. (default: info)")
    ] = None,
    new_admin: Annotated[
        bool,
        typer.Option(
            "--new-admin",
            help="Make another admin token in the data directory, if no valid one is there.",
        ),
    ] = False,
    new_installation: Annotated[
        bool,
        typer.Option(
            "--new-installation",
            help="Use another database than this data directory had. Nodes and runs of the earlier"
            " installation are given up.",
        ),
    ] = False,
) -> None:
    """Run the server on this machine until Ctrl-C or SIGTERM. Nodes keep running and reconnect."""
    flags = {
        "host": host,
        "port": port,
        "public_url": public_url,
        "data_dir": data_dir,
        "store": store,
        "log_format": log_format,
        "log_level": log_level,
    }
    _serve(_configured(config, flags), new_admin=new_admin, new_installation=new_installation)


def _configured(path: Path | None, flags: Mapping[str, object]) -> "Config":
    from muster.config import load

    return load(find_settings_file(path), environment=os.environ, flags=flags)


def _serve(config: "Config", *, new_admin: bool, new_installation: bool) -> None:
    import asyncio

    from muster.api.logs import configure
    from muster.api.server import CannotListen
    from muster.config.data_directory import DirectoryInUse, DirectoryUnusable
    from muster.installation_guard import InstallationLost
    from muster.serve import serve as served

    configure(form=config.server.log_format, level=config.server.log_level)

    def ready(serving: "Serving") -> None:
        _told(serving, config)

    try:
        starting = served(
            config, ready=ready, signals=True, new_admin=new_admin, new_installation=new_installation
        )
        asyncio.run(starting)
    except (CannotListen, DirectoryInUse, DirectoryUnusable, InstallationLost) as error:
        raise UsageProblem(str(error)) from error


def _told(serving: "Serving", config: "Config") -> None:
    import muster

    data = serving.data.path
    if output.wants_json():
        output.print_json_line({"url": serving.url, "data_dir": str(data), "pid": os.getpid()})
        return
    here = "muster doctor"
    if config.server.data_dir is not None and "MUSTER_DATA_DIR" not in os.environ:
        here = f"MUSTER_DATA_DIR={data} {here}"
    file = f", configured by {config.path}" if config.path is not None else ""
    output.say(f"Muster {muster.__version__} listens on {serving.url}, with its data in {data}{file}")
    output.say(f"  from this machine: {here}")
    token = f"what is in {data / 'admin.token'}" if serving.data.admin_token() else "a token of yours"
    output.say(f"  in a browser:      {serving.url} (sign in with {token})")
    output.say(f"  from elsewhere:    MUSTER_SERVER={serving.url} MUSTER_TOKEN=… muster nodes")
    output.say("                     (a token: muster tokens create NAME --role operator)")
    output.say("  stop it with Ctrl-C; nodes keep running and reconnect to the next server")
