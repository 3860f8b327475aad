"""Render the codes as the server's page. `tools.reference` makes docs/codes.md of the same sections.

A code that is both a reason and a problem code has one anchor, where it is explained first.
"""

from collections.abc import Iterable, Iterator
from html import escape

from muster.domain import codes
from muster.domain.codes import Entry

SECTIONS = (
    (
        "Failed operations",
        "The `code` of an operation's `error`. Its `reason` is one of the next table.",
        codes.failures,
    ),
    ("Reasons", "Why a node, launch, command or operation failed or ended: `reason`.", codes.reasons),
    ("Refused requests", "The `code` of a problem+json answer (RFC 9457).", codes.problems),
    ("The command line", "The `code` of an error in JSON that `muster` itself found.", codes.client),
    ("Exit codes", "The exit codes of `muster`.", codes.exits),
)
TITLE = "Codes: causes and next steps"
WHAT = (
    "This page explains every code, with its cause and the next step. Messages link here."
    " With `--output json` the code is in `error.code` and the reason in `error.reason`."
)


def html() -> str:
    parts = []
    for title, what, rows in anchored():
        body = "".join(
            f"<tr><td>{anchor}<code>{row.code}</code></td><td>{_marked(row.cause)}</td>"
            f"<td>{_marked(row.cure)}</td></tr>"
            for row, anchor in rows
        )
        head = "<tr><th>code</th><th>cause</th><th>what to do</th></tr>"
        parts.append(f"<h2>{escape(title)}</h2><p>{_marked(what)}</p><table>{head}{body}</table>")
    return (
        "<!doctype html><html lang=en><meta charset=utf-8>"
        "<meta name=viewport content='width=device-width'>"
        f"<title>Muster: codes</title><h1>{escape(TITLE)}</h1><p>{_marked(WHAT)}</p>{''.join(parts)}</html>\n"
    )


def anchored() -> Iterator[tuple[str, str, list[tuple[Entry, str]]]]:
    """Return each section's title, introduction and codes. A code has its anchor where it comes first."""
    named: set[str] = set()
    for title, what, entries in SECTIONS:
        yield title, what, list(_rows(entries(), named))


def _rows(entries: Iterable[Entry], named: set[str]) -> Iterator[tuple[Entry, str]]:
    for entry in entries:
        anchor = "" if entry.code in named else f'<a id="{entry.code}"></a>'
        named.add(entry.code)
        yield entry, anchor


def _marked(words: str) -> str:
    """Escaped, with `code` as code."""
    pieces = escape(words).split("`")
    return "".join(f"<code>{each}</code>" if n % 2 else each for n, each in enumerate(pieces))
