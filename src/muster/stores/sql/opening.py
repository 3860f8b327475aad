"""Opening a store: connect, bring the schema up to date, name a new installation, choose the executor."""

from pathlib import Path

from muster.domain.errors import InvalidRequest
from muster.domain.ids import InstallationId
from muster.ports.ids import Ids
from muster.stores.announcing import AfterCommit
from muster.stores.sql import schema, sqlite, templates
from muster.stores.sql.engines import Inline, Threaded
from muster.stores.sql.store import SqlStore


def _quiet(_written: object) -> None:
    """Nobody listens."""


def open_sqlite(
    path: str | Path, *, ids: Ids, inline: bool = False, after_commit: AfterCommit = _quiet
) -> SqlStore:
    """Open (or make) a store in a file. Raises StoreUnavailable, saying what is wrong with it."""
    if not inline and str(path) == ":memory:":
        raise InvalidRequest("path", path, "must be a file: the reader's connection would see another memory")
    writer = _opened(path, ids)
    if inline:
        return SqlStore(Inline(writer, writer.reader(), after_commit))
    try:
        reader = sqlite.Reader(sqlite.connect(path, readonly=True))
    except BaseException as error:
        writer.close()
        raise sqlite.translated(error) from error
    return SqlStore(Threaded(writer, reader, after_commit))


def _opened(path: str | Path, ids: Ids) -> sqlite.Writer:
    try:
        writer = sqlite.Writer(sqlite.connect(path))
    except Exception as error:
        raise sqlite.translated(error) from error
    try:
        while _now(writer, schema.advance):
            pass
        _now(writer, lambda tx: templates.found(tx, InstallationId(ids.new("inst"))))
    except BaseException:
        writer.close()
        raise
    return writer


def _now(writer: sqlite.Writer, work: sqlite.Work[sqlite.T]) -> sqlite.T:
    (end,), _ = writer.run((work,))
    if end.error is not None:
        raise end.error
    return end.value  # type: ignore[no-any-return]  # the type of the work that was run
