"""Keep a server from starting a new installation over an earlier one by accident.

A database that is missing, empty or of another installation knows nothing of the running nodes. A server with
such a database would treat them as strangers and end their work. So the data directory remembers its
installation.
"""

from collections.abc import Mapping

from muster.config import DataDirectory
from muster.domain.errors import MusterError
from muster.domain.text import counted


class InstallationLost(MusterError):
    """The database isn't the one that this data directory was used with."""


def guard(data: DataDirectory, stored: str | None, running: Mapping[str, int], *, anew: bool) -> None:
    """Check the database before it is opened. Raises InstallationLost.

    `stored`: the database's installation; None if it is missing or empty. `running`: how many nodes run here,
    by installation. `anew`: a new installation is wanted.
    """
    remembered = data.installation()
    alive = {name: count for name, count in running.items() if name != stored}
    if anew or (stored is not None and stored == remembered):
        return
    if stored is None:
        found = _evidence(data, remembered, alive)
        if not found:
            return
        missing = "is empty" if data.database.exists() else "is missing"
        what = f"the database {data.database} {missing}, although there is {found}"
    elif remembered is None and not alive:
        return  # from before directories remembered, and nothing speaks against it
    else:
        others = f" and {_nodes(alive)}" if alive else ""
        what = (
            f"the database {data.database} belongs to another installation ({stored}) than"
            f" this directory ({remembered or next(iter(alive))}){others}"
        )
    raise InstallationLost(
        f"cannot serve: {what}. Put the right database or its latest backup back (docs/operations.md). To"
        " give up the earlier installation and what runs for it, start with --new-installation"
    )


def _evidence(data: DataDirectory, remembered: str | None, alive: dict[str, int]) -> str:
    """Return what an earlier installation left, in words."""
    found = []
    if alive:
        found.append(_nodes(alive))
    if data.admin_token() is not None:
        found.append(f"a token of an earlier installation ({data.path / 'admin.token'})")
    elif remembered is not None:
        found.append(f"a note of an earlier installation ({remembered})")
    return " and ".join(found)


def _nodes(alive: dict[str, int]) -> str:
    count = sum(alive.values())
    return f"{counted(count, 'node')} that {'runs' if count == 1 else 'run'} for an earlier installation"
