"""`muster store`: create, check and back up the store, without a running server."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeGuard

import typer

from muster.cli import output, store_aws
from muster.cli.exits import UsageProblem
from muster.cli.options import Yes, confirm
from muster.domain.errors import StoreUnavailable

if TYPE_CHECKING:
    from muster.stores.sql.tx import Report

app = typer.Typer(
    help="Create, check, back up or restore the store of a server.",
    no_args_is_help=True,
    add_completion=False,
)

Address = Annotated[
    str | None,
    typer.Option(
        "--store",
        help="postgresql://USER@HOST/DATABASE or dynamodb://TABLE?region=REGION. (default: MUSTER_STORE, else"
        " SQLite)",
    ),
]
DataDir = Annotated[
    str | None, typer.Option(help="Where SQLite's file is. (default: the user's data directory)")
]


@app.callback()
def root() -> None:
    """Create, check, back up or restore the store of a server. The server needn't run."""


@app.command()
def check(*, store: Address = None, data_dir: DataDir = None) -> None:
    """Check whether this program can use the store. Changes nothing."""
    from muster.stores import factory

    address, file = _named(store, data_dir)
    if on_aws(address):
        store_aws.check(address)
        return
    if address is None and not file.exists():
        raise UsageProblem(f"cannot check {file}: there is no such file; `muster store create` makes one")
    _told(factory.look(address, file))


@app.command()
def create(
    *,
    store: Address = None,
    data_dir: DataDir = None,
    shards: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=512,
            help="Of a new table: logs and partitions, each for 1,000 writes a second. (default: 16)",
        ),
    ] = None,
) -> None:
    """Make what is missing: the database (or table and queues), its schema, the installation. Repeating it is
    harmless."""
    import asyncio

    from muster.stores import factory
    from muster.system import SystemIds

    address, file = _named(store, data_dir)
    if on_aws(address):
        store_aws.create(address, shards=shards)
        return
    if address is None:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    asyncio.run(factory.create(address, file, ids=SystemIds()))
    _told(factory.look(address, file))


@app.command()
def backup(
    to: Annotated[Path, typer.Argument(help="The file to write; it must not be there yet.")],
    *,
    data_dir: DataDir = None,
) -> None:
    """Copy SQLite's file, whole and consistent, while the server runs. (PostgreSQL: use pg_dump.)"""
    from muster.stores.sql import sqlite

    address, file = _named(None, data_dir)
    if address is not None:
        means = "point-in-time recovery" if on_aws(address) else "pg_dump"
        raise UsageProblem(f"cannot copy a store that is no file: use {means}, see docs/operations.md")
    if not file.exists():
        raise UsageProblem(f"cannot copy {file}: there is no such file; name its directory with --data-dir")
    if to.exists():
        raise UsageProblem(f"cannot write {to}: the file exists; name another file")
    sqlite.back_up(file, to)
    to.chmod(0o600)
    size = to.stat().st_size
    output.show({"file": str(to), "bytes": size}, f"copied {file} to {to} ({size:,} bytes)")


@app.command()
def restore(
    backup: Annotated[Path, typer.Argument(help="A file that `muster store backup` wrote.")],
    *,
    data_dir: DataDir = None,
    other: Annotated[
        bool,
        typer.Option(
            "--other-installation", help="Take a backup of another installation than this directory had."
        ),
    ] = False,
    yes: Yes = False,
) -> None:
    """Put a backup in the place of SQLite's file. The server must not run. The present file is kept."""
    from muster.config import DataDirectory
    from muster.stores.sql import sqlite

    address, file = _named(None, data_dir)
    if address is not None:
        means = "point-in-time recovery" if on_aws(address) else "pg_restore"
        raise UsageProblem(f"cannot restore a store that is no file: use {means}, see docs/operations.md")
    data = DataDirectory(file.parent)
    if not backup.is_file():
        raise UsageProblem(f"cannot restore {backup}: there is no such file")
    report = sqlite.look(backup)
    if report.problem or not report.installation_id:
        why = report.problem or "it has no installation, so no server has used it"
        raise UsageProblem(f"cannot restore {backup}: {why}")
    if report.version > report.latest:
        raise UsageProblem(
            f"cannot restore {backup}: its schema is newer than this program"
            f" ({report.version} > {report.latest}); upgrade Muster first"
        )
    remembered = data.installation()
    if remembered not in (None, report.installation_id) and not other:
        raise UsageProblem(
            f"cannot restore {backup}: it is of installation {report.installation_id}, and {file.parent} of"
            f" {remembered}; check the file, or repeat with --other-installation"
        )
    confirm(f"{file} will be replaced by {backup}. What happened since the backup is forgotten.", yes=yes)
    with data.held():
        kept = sqlite.put_back(backup, file)
        if other:
            data.keep_installation(report.installation_id)
    words = f"restored {file} from {backup}" + (f"; the old file is {kept}" if kept else "")
    document = {"file": str(file), "kept": str(kept) if kept else None}
    output.show(document, words, "  start the server: it ends nodes that the backup does not know")


@app.command()
def policy(
    *,
    store: Address = None,
    account: Annotated[str, typer.Option(help="The AWS account's number. (default: any)")] = "*",
) -> None:
    """Print the IAM policy that a server needs for its store on DynamoDB, and nothing more."""
    address, _ = _named(store, None)
    if not on_aws(address):
        raise UsageProblem(
            "cannot print a policy: the store is not on AWS; name it with --store dynamodb://…"
        )
    store_aws.print_policy(address, account=account)


def on_aws(address: str | None) -> TypeGuard[str]:
    return address is not None and address.startswith("dynamodb://")


def _named(store: str | None, data_dir: str | None) -> tuple[str | None, Path]:
    from muster.config import DataDirectory, default_data_directory, load

    flags = {"store": store, "data_dir": data_dir}
    file = Path("muster.toml")
    config = load(file if file.is_file() else None, environment=os.environ, flags=flags)
    data = DataDirectory(config.server.data_dir or default_data_directory(os.environ))
    return config.server.store, data.database


def _told(report: "Report") -> None:
    old = report.version < report.latest
    problem = report.problem
    if report.version > report.latest:
        problem = (
            f"its schema is newer than this program ({report.version} > {report.latest}): upgrade Muster"
        )
    if output.wants_json():
        output.print_json({"ok": not problem, "report": report})
    else:
        output.say(f"{report.engine} at {report.where}")
        output.say(f"  schema        version {report.version}, this program knows {report.latest}")
        output.say(f"  installation  {report.installation_id or 'none yet'}")
        if report.connections is not None:
            output.say(f"  connections   {report.connections} in total; a server uses 18 by default")
        if old:
            output.say("  the next server that starts, or `muster store create`, brings it up to date")
    if problem:
        raise StoreUnavailable(f"cannot use the store at {report.where}: {problem}")
