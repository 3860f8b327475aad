"""`muster pools`: show each template's nodes against its cap and its warm minimum."""

from operator import attrgetter
from typing import TYPE_CHECKING

from muster.cli import output
from muster.cli.connection import ask, calls
from muster.domain.text import counted

if TYPE_CHECKING:
    from muster.wire.nodes import Pool


def pools() -> None:
    """Show each template's nodes against its cap and its warm minimum."""
    found = ask(calls.pools())
    counts = (
        ("IDLE", "idle"),
        ("MIN", "min_idle"),
        ("RUN", "running"),
        ("CLAIM", "claimed"),
        ("BOOT", "booting"),
        ("RELEASE", "releasing"),
        ("FAIL", "failed"),
        ("END", "terminating"),
        ("USED", "used"),
        ("MAX", "max_nodes"),
    )
    columns: output.Columns[Pool] = [
        output.Column(
            "TEMPLATE", lambda pool: f"{pool.template}{' (paused)' if pool.paused else ''}", cut=True
        ),
        *(
            output.Column(name, attrgetter(field), right=True, spare=name not in ("IDLE", "USED", "MAX"))
            for name, field in counts
        ),
    ]
    output.show_table(found, found.items, columns, nothing="no templates: apply some with `muster apply`")
    if not output.wants_json():
        paused = " · everything is paused: `muster resume`" if found.paused else ""
        output.say(f"{found.used} of {counted(found.max_nodes, 'node')} in all{paused}")
