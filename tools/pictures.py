"""`python -m tools.pictures`: draw docs/images/states.svg from the node table, and request.svg.

Both follow the colours of the reader's light or dark mode.
"""

import sys
from html import escape
from math import hypot
from pathlib import Path

from muster.domain.lifecycle import EDGES, NodeState, Verb

IMAGES = Path(__file__).parents[1] / "docs" / "images"
STYLE = """<style>
svg{font:13px system-ui,sans-serif}text{fill:#222}
.box{fill:#eef2ff;stroke:#4f5bd5}.end{fill:#f4f4f4;stroke:#888}
path{stroke:#667;fill:none}.verb{font-size:11px;fill:#556}
@media(prefers-color-scheme:dark){text{fill:#eee}.box{fill:#23284a;stroke:#8c96ff}.end{fill:#2a2a2e}
path{stroke:#9aa}.verb{fill:#bbc}}</style>
<defs><marker id="a" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">
<path d="M0 0L8 4L0 8" stroke-width="1.5"/></marker></defs>"""
W, H = 96, 34
LINE = 14
PLACES = {
    NodeState.CREATED: (60, 60),
    NodeState.IDLE: (290, 60),
    NodeState.CLAIMED: (520, 60),
    NodeState.RUNNING: (520, 190),
    NodeState.RELEASING: (290, 190),
    NodeState.FAILED: (60, 190),
    NodeState.TERMINATING: (290, 320),
    NodeState.TERMINATED: (520, 320),
}


def states() -> str:
    """Draw the states and their edges. Edges of several verbs between two states share one arrow."""
    verbs: dict[tuple[NodeState, NodeState], list[str]] = {}
    for edge in EDGES:
        if edge.source is not None and edge.source is not edge.target and edge.verb is not Verb.CONDEMN:
            verbs.setdefault((edge.source, edge.target), []).append(edge.verb.value)
    verbs[NodeState.RELEASING, NodeState.TERMINATING] = ["condemn, from every live state"]
    parts = [_arrow(*pair, ", ".join(dict.fromkeys(names))) for pair, names in verbs.items()]
    parts += [
        _box(*PLACES[state], state.value, ended=state.value.startswith("termin")) for state in NodeState
    ]
    return _svg(680, 380, parts, "The states of a node and the verbs between them")


def request() -> str:
    steps = (
        "asked",
        "warm nodes claimed",
        "the rest created in one call",
        "all attached",
        "committed",
        "handed over",
    )
    parts = []
    for number, words in enumerate(steps):
        x = 20 + number * 128
        parts.append(f'<rect class="box" x="{x}" y="30" width="112" height="54" rx="8"/>')
        lines = _lines(words)
        top = 62 - 8 * (len(lines) - 1)
        for line, piece in enumerate(lines):
            parts.append(
                f'<text x="{x + 56}" y="{top + line * 16}" text-anchor="middle">{escape(piece)}</text>'
            )
        if number:
            parts.append(f'<path d="M{x - 14} 57H{x - 2}" marker-end="url(#a)"/>')
    parts.append('<path d="M404 96V118H76V96" marker-end="url(#a)" stroke-dasharray="4 3"/>')
    parts.append(
        '<text class="verb" x="240" y="136" text-anchor="middle">a failure here gives everything back</text>'
    )
    return _svg(
        796, 150, parts, "A request: warm nodes first, the rest created in one call, handed over together"
    )


def _lines(words: str) -> list[str]:
    pieces = words.split()
    middle = (len(pieces) + 1) // 2
    return [" ".join(pieces[:middle]), " ".join(pieces[middle:])] if len(words) > LINE else [words]


def _box(x: int, y: int, name: str, *, ended: bool) -> str:
    kind = "end" if ended else "box"
    return (
        f'<rect class="{kind}" x="{x}" y="{y}" width="{W}" height="{H}" rx="8"/>'
        f'<text x="{x + W // 2}" y="{y + 22}" text-anchor="middle">{name}</text>'
    )


def _arrow(source: NodeState, target: NodeState, words: str) -> str:
    """Draw a line from border to border, bent aside so that the way back is another line."""
    (x1, y1), (x2, y2) = ((x + W / 2, y + H / 2) for x, y in (PLACES[source], PLACES[target]))
    length = hypot(x2 - x1, y2 - y1)
    dx, dy = (x2 - x1) / length, (y2 - y1) / length
    start, end = _border(x1, y1, dx, dy), _border(x2, y2, -dx, -dy)
    middle = ((start[0] + end[0]) / 2 - dy * 22, (start[1] + end[1]) / 2 + dx * 22)
    path = f"M{start[0]:.0f} {start[1]:.0f}Q{middle[0]:.0f} {middle[1]:.0f} {end[0]:.0f} {end[1]:.0f}"
    at = ((start[0] + end[0]) / 2 - dy * 20, (start[1] + end[1]) / 2 + dx * 20)
    return (
        f'<path d="{path}" marker-end="url(#a)"/>'
        f'<text class="verb" x="{at[0]:.0f}" y="{at[1]:.0f}" text-anchor="middle">{words}</text>'
    )


def _border(x: float, y: float, dx: float, dy: float) -> tuple[float, float]:
    """Return where the ray from a box's middle leaves the box, with a little room."""
    reach = min((W / 2 + 4) / abs(dx) if dx else 1e9, (H / 2 + 4) / abs(dy) if dy else 1e9)
    return x + dx * reach, y + dy * reach


def _svg(width: int, height: int, parts: list[str], title: str) -> str:
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img">'
    return f"{head}<title>{escape(title)}</title>\n{STYLE}\n" + "\n".join(parts) + "\n</svg>\n"


def main() -> int:
    (IMAGES / "states.svg").write_text(states(), encoding="utf-8")
    (IMAGES / "request.svg").write_text(request(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
