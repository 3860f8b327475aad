"""`muster pools`: show each template's nodes against its cap and its warm minimum."""

from muster.cli import output
from muster.cli.connection import open_client
from muster.domain.text import counted


def pools() -> None:
    """Show each template's nodes against its cap and its warm minimum."""
    from muster.client import calls

    with open_client() as client:
        found = client.send(calls.pools())
    if output.wants_json():
        output.print_json(found)
        return
    names = ("IDLE", "MIN", "RUN", "CLAIM", "BOOT", "RELEASE", "FAIL", "END", "USED", "MAX")
    columns = (
        output.Column("TEMPLATE", cut=True),
        *(output.Column(name, right=True, spare=name not in ("IDLE", "USED", "MAX")) for name in names),
    )
    rows = [
        (
            f"{pool.template}{' (paused)' if pool.paused else ''}",
            *map(
                str,
                (
                    pool.idle,
                    pool.min_idle,
                    pool.running,
                    pool.claimed,
                    pool.booting,
                    pool.releasing,
                    pool.failed,
                    pool.terminating,
                    pool.used,
                    pool.max_nodes,
                ),
            ),
        )
        for pool in found.items
    ]
    output.table(columns, rows, nothing="no templates: apply some with `muster apply`")
    paused = " · everything is paused: `muster resume`" if found.paused else ""
    output.say(f"{found.used} of {counted(found.max_nodes, 'node')} in all{paused}")
