"""Render docs/lifecycle.md from the table: `python -m muster.domain.lifecycle_page`."""

from muster.domain.lifecycle import EDGES, MEANING, NodeState


def render() -> str:
    lines = [
        "# A node's life",
        "",
        "This page lists the states of a node, the verbs that change them, and their callers.",
        "",
        "```console",
        "$ muster nodes                  # every node with its state",
        "$ muster events --of NODE       # how a node came to its state",
        "```",
        "",
        "Generated from `muster.domain.lifecycle` by `make lifecycle`; edit the table, not this page.",
        "",
        "| state | meaning |",
        "|---|---|",
        *(f"| `{state}` | {MEANING[state]} |" for state in NodeState),
        "",
        "| verb | from | to | called by | when |",
        "|---|---|---|---|---|",
        *(
            f"| {edge.verb} | {edge.source or '∅'} | {edge.target} | {', '.join(edge.callers)}"
            f" | {edge.when} |"
            for edge in EDGES
        ),
        "",
        "```mermaid",
        "stateDiagram-v2",
        *(
            f"  {edge.source or '[*]'} --> {edge.target}: {edge.verb}"
            for edge in EDGES
            if edge.source is not edge.target
        ),
        "  terminated --> [*]",
        "```",
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    print(render(), end="")
