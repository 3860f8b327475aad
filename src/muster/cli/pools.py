"""`muster pools`: show each template's nodes against its cap and its warm minimum."""

from muster.cli.printing import Output
from muster.domain.text import counted


def pools(*, _output: Output = None) -> None:
    """Show each template's nodes against its cap and its warm minimum."""
    from muster.cli import printing
    from muster.cli.connecting import connected
    from muster.client import calls

    with connected() as client:
        found = client.send(calls.pools())
    if printing.wants_json():
        printing.document(found)
        return
    names = ("IDLE", "MIN", "RUN", "CLAIM", "BOOT", "RELEASE", "FAIL", "END", "USED", "MAX")
    columns = (
        printing.Column("TEMPLATE", cut=True),
        *(printing.Column(name, right=True, spare=name not in ("IDLE", "USED", "MAX")) for name in names),
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
    printing.table(columns, rows, nothing="no templates: apply some with `muster apply`")
    paused = " · everything is paused: `muster resume`" if found.paused else ""
    printing.say(f"{found.used} of {counted(found.max_nodes, 'node')} in all{paused}")
