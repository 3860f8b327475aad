"""`muster audit`: show who did what, filtered; follow it, or export it as JSON lines."""

import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated

import typer

from muster.cli import output
from muster.cli.connection import calls, open_client
from muster.cli.durations import parse_duration
from muster.domain.recent_changes import ActFilter

if TYPE_CHECKING:
    from muster.client import SyncClient
    from muster.wire.events import Event


def _moment(text: str) -> datetime:
    """Parse a point in time: how long ago, or a date, or a date and time."""
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        try:
            return datetime.now(UTC) - timedelta(seconds=parse_duration(text))
        except (typer.BadParameter, OverflowError):
            rule = "write how long ago, such as 2h, or a time such as 2026-05-04T09:30"
            raise typer.BadParameter(f"{text[:40]!r} is not a time: {rule}") from None
    return at if at.tzinfo is not None else at.astimezone()


Moment = Annotated[
    datetime | None,
    typer.Option(
        parser=_moment, metavar="TIME", help="How long ago (2h, 7d), or a date, or a date and time."
    ),
]


def audit(
    *,
    since: Moment = None,
    until: Moment = None,
    who: Annotated[
        str | None,
        typer.Option("--who", metavar="TEXT", help="A part of a person's or token's name, or its id."),
    ] = None,
    action: Annotated[
        list[str] | None,
        typer.Option(
            "--action", metavar="NAME", help="e.g. applied, submitted, token_added. May be repeated."
        ),
    ] = None,
    entity: Annotated[
        str | None,
        typer.Option("--entity", metavar="KIND|ID", help="e.g. node, template, or the id of one thing."),
    ] = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Continue with new acts.")] = False,
) -> None:
    """Show who did what, oldest first. In JSON one act per line. For admins."""
    if follow and until is not None:
        raise typer.BadParameter("--until and --follow exclude each other")
    wanted = ActFilter(who=who or "", names=tuple(action or ()), entity=entity or "")
    with open_client() as client:
        # The end of the feed, read first: what happens while the past is read comes by the stream.
        end = client.send(calls.last_events(1)).next if follow else None
        shown: dict[str, None] = {}
        for event in _past(client, since, until, wanted):
            shown[event.id] = None
            _show(event)
        if not follow:
            if not shown and not output.wants_json():
                output.say("no act matches", file=sys.stderr)  # an export has none
            return
        for event in client.stream(calls.follow_events(last=end)):
            if event.id not in shown and wanted.matches(event):
                _show(event)


def _past(
    client: "SyncClient", since: datetime | None, until: datetime | None, wanted: ActFilter
) -> "Iterator[Event]":
    return client.items(
        lambda cursor: calls.audit(
            since=None if since is None else since.isoformat(),
            until=None if until is None else until.isoformat(),
            who=wanted.who or None,
            action=wanted.names,
            entity=wanted.entity or None,
            cursor=cursor,
        )
    )


def _show(event: "Event") -> None:
    if output.wants_json():
        output.print_json_line(event)
        return
    words = [f"{event.at:%Y-%m-%d %H:%M:%S}", event.actor, event.title or event.name, *_about(event)]
    if event.detail:
        words.append(f"({' '.join(event.detail.split())})")
    output.say("  ".join(words))


def _about(event: "Event") -> list[str]:
    """Return what the act was about: a kind of thing and its id, its run and its node if they are told."""
    changes = event.changes
    shell = changes.get("terminal") or changes.get("traffic")
    named = (("run", changes.get("run")), ("node", changes.get("node_id")))
    told = [f"{kind} {name}" for kind, name in named if isinstance(name, str)]
    return ["shell" if shell else str(event.entity), event.entity_id, *told]
