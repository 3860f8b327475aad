"""`muster events`: show past events and follow new ones."""

from typing import TYPE_CHECKING, Annotated

import typer

from muster.cli import output
from muster.cli.connection import calls, open_client
from muster.domain.errors import CursorLost
from muster.domain.node import RENEWED
from muster.domain.text import counted

if TYPE_CHECKING:
    from muster.wire.events import Event


def events(
    *,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Continue with new events.")] = False,
    last: Annotated[int, typer.Option("--last", min=0, max=10_000, help="How many of the past.")] = 50,
    of: Annotated[
        str | None, typer.Option("--of", metavar="ID", help="Only of this node, operation, launch …")
    ] = None,
    everything: Annotated[
        bool, typer.Option("--all", help="Also renewals of nodes that are kept warm. JSON always has them.")
    ] = False,
) -> None:
    """Show past events, oldest first; with --follow, also new ones. In JSON one event per line."""
    everything = everything or output.wants_json()
    with open_client() as client:
        while True:
            # None of the past is still asked for one: it says where the feed goes on.
            past = client.send(calls.last_events(max(1, last), entity_id=of))
            shown = [event for event in past.items if _tells(event, everything=everything)]
            for event in shown if last else ():
                _show(event)
            if last and len(shown) < len(past.items):
                hidden = counted(len(past.items) - len(shown), "renewal")
                output.print_notice("renewals_hidden", f"{hidden} of warm nodes not shown: --all")
            if not follow:
                return
            try:
                for event in client.stream(calls.follow_events(last=past.next, entity_id=of)):
                    if _tells(event, everything=everything):
                        _show(event)
            except CursorLost:
                output.print_notice("cursor_lost", "the store was restored or replaced; its last events are:")


def _tells(event: "Event", *, everything: bool) -> bool:
    """Return whether to show an event. A warm node's renewals come every few minutes and say nothing new."""
    return everything or event.name != RENEWED


def _show(event: "Event") -> None:
    if output.wants_json():
        output.print_json_line(event)
        return
    words = [
        f"{event.at:%Y-%m-%d %H:%M:%S}",
        f"{event.entity:<12}",
        event.entity_id,
        event.title or event.name,
    ]
    state = event.changes.get("state") or event.changes.get("status")
    if isinstance(state, str) and state not in (event.name, event.title):
        words.append(f"→ {state}")
    if event.detail:
        words.append(f"({' '.join(event.detail.split())})")
    if event.actor:
        words.append(f"by {event.actor}")
    text = " ".join(words)
    if output.is_terminal():
        from rich.text import Text

        drawn = Text(text, no_wrap=True, overflow="ellipsis")
        output.console().print(drawn)
    else:
        output.say(text)
