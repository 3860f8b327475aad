"""Print notices where the user looks: in the live view if there is one, else on stderr.

The client's threads send notices; a live view takes them while it is drawn.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from muster.cli.durations import clock

if TYPE_CHECKING:
    from muster.client.breaks import Break


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    code: str
    words: str
    good: bool


Taken = Callable[[Notice], None]


class Place:
    """One process is one command, and draws one view at a time."""

    view: Taken | None = None


def broke(happened: "Break") -> None:
    from muster.cli import printing

    url, patience = happened.url, clock(happened.patience)
    if happened.back:
        notice = Notice(code="connection_back", words=f"connection to {url} is back", good=True)
    else:
        words = f"connection to {url} lost, retrying for up to {patience}"
        notice = Notice(code="connection_lost", words=words, good=False)
    view = Place.view
    if view is not None:
        view(notice)
    else:
        printing.remark(notice.code, notice.words)
