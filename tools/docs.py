"""`python -m tools.docs`: build the documentation as a site that works without a network, in build/site.

The pages of docs/ are the source. The README becomes the first page. Pages of reference are generated from
the code: the command line, the API and the metrics. A broken link fails the build.
"""

import ast
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from html import escape
from pathlib import Path
from typing import Any

import click
import msgspec

from muster.api.routes import described
from muster.cli.app import commands, load_command

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "build" / "docs"
SITE = ROOT / "build" / "site"
BESIDE = ("SECURITY.md", "CONTRIBUTING.md", "CHANGELOG.md", "LICENSE", "deploy", "examples")
"""What pages link to outside of docs/. Directories are copied, and shown as files."""
METRICS = ("metrics.py", "telemetry.py", "job_metrics.py")
_LINK = re.compile(r"(\]\()([^)\s]+)(\))")


def main() -> int:
    gather()
    if wrong := built():
        print(*wrong, "error: cannot build the site: see above", sep="\n", file=sys.stderr)
        return 1
    place = SITE.relative_to(ROOT)
    print(f"the site is in {place}; read it: python3 -m http.server --bind 127.0.0.1 --directory {place}")
    return 0


def built(root: Path = ROOT) -> list[str]:
    """Build the site from what was gathered. Returns what is wrong, and nothing if all is well."""
    # Not --quiet: with it, mkdocs counts no warnings, and --strict lets every broken link pass.
    asked = [sys.executable, "-m", "mkdocs", "build", "--strict", "--config-file", str(root / "mkdocs.yml")]
    quiet = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(asked, cwd=root, env=quiet, check=False, capture_output=True, text=True)  # noqa: S603 — our own command line
    said = done.stderr.splitlines()
    return [each for each in said if not each.startswith("INFO")] if done.returncode else []


def gather() -> None:
    """Put the pages and all they link to into one directory."""
    shutil.rmtree(SOURCE, ignore_errors=True)
    shutil.copytree(ROOT / "docs", SOURCE)
    for name in BESIDE:
        place = ROOT / name
        if place.is_dir():
            shutil.copytree(place, SOURCE / name, ignore=shutil.ignore_patterns("*.md", "__pycache__"))
        else:
            (SOURCE / name).write_text(_moved_up(place.read_text(encoding="utf-8")), encoding="utf-8")
    (SOURCE / "index.md").write_text(
        _moved_up((ROOT / "README.md").read_text(encoding="utf-8")), encoding="utf-8"
    )
    for page in SOURCE.rglob("*.md"):
        page.write_text(_inside(page), encoding="utf-8")
    reference = SOURCE / "reference"
    reference.mkdir()
    (reference / "cli.md").write_text(cli(), encoding="utf-8")
    (reference / "api.md").write_text(api(), encoding="utf-8")
    (reference / "metrics.md").write_text(metrics(), encoding="utf-8")


def _moved_up(text: str) -> str:
    """Return a page of the root for its place among the pages of docs/."""
    return _LINK.sub(lambda link: f"{link[1]}{link[2].removeprefix('docs/')}{link[3]}", text)


def _inside(page: Path) -> str:
    """Return the page with links to directories and to what was beside docs/ made right."""

    def right(link: re.Match[str]) -> str:
        target = link[2]
        if target.startswith("../") and page.parent == SOURCE:
            target = target.removeprefix("../")
        if target in ("adr/", "examples/"):
            target = {"adr/": "adr/0001-leases-in-the-store.md", "examples/": "examples/ec2.toml"}[target]
        return f"{link[1]}{target}{link[3]}"

    return _LINK.sub(right, page.read_text(encoding="utf-8"))


# --- reference ----------------------------------------------------------------------------------------


def cli() -> str:
    """Return every command with its options, as `--help` says them."""
    lines = ["# The command line", "", "Every command of `muster`, generated from the program.", ""]
    for name, entry in commands().items():
        lines += [f"## muster {name}", "", entry.help, ""]
        lines += _command(f"muster {name}", load_command(name))
    return "\n".join(lines) + "\n"


def _command(name: str, command: Any) -> Iterator[str]:
    context = click.Context(command, info_name=name)
    yield from ("```text", command.get_help(context).rstrip(), "```", "")
    for each, inner in getattr(command, "commands", {}).items():
        yield from (f"### {name} {each}", "", "```text")
        yield from (inner.get_help(click.Context(inner, info_name=f"{name} {each}")).rstrip(), "```", "")


def api() -> str:
    """Return every route of the HTTP API, one line each. A server's own page /api tells more."""
    lines = [
        "# The HTTP API",
        "",
        "Every route, generated from the server. A running server shows shapes and examples at `/api`,",
        "and its OpenAPI document at `/api/v1/openapi.json`.",
        "",
        "| method | path | what it does |",
        "|---|---|---|",
    ]
    for path, methods in msgspec.json.decode(described())["paths"].items():
        lines += [
            f"| {method.upper()} | `{path}` | {escape(each['summary'], quote=False)} |"
            for method, each in methods.items()
        ]
    return "\n".join(lines) + "\n"


def metrics() -> str:
    """Return every metric, read from the code that declares it."""
    found = dict(
        each
        for name in METRICS
        for each in _declared(ast.parse((ROOT / "src/muster/api" / name).read_text(encoding="utf-8")))
    )
    lines = [
        "# Metrics",
        "",
        "Every metric of `/metrics`, generated from the code. `muster metrics list` shows those of a server.",
        "",
        "| metric | kind | meaning |",
        "|---|---|---|",
        *(f"| `{name}` | {kind} | {words} |" for name, (kind, words) in sorted(found.items())),
    ]
    return "\n".join(lines) + "\n"


def _declared(tree: ast.AST) -> Iterator[tuple[str, tuple[str, str]]]:
    """Yield name, kind and meaning of the metrics that a module declares by calls, or in tables of gauges."""
    for node in ast.walk(tree):
        match node:
            case ast.Call(
                func=ast.Name(id="Counter" | "Histogram" | "gauge" as kind),
                args=[ast.Constant(value=str(name)), ast.Constant(value=str(words)), *_],
            ):
                yield name, (kind.lower(), words)
            case ast.Tuple(
                elts=[ast.Constant(value=str(name)), ast.Constant(value=str(words)), ast.Constant()]
            ) if name.startswith(("gha_", "muster_")):
                yield name, ("gauge", words)


if __name__ == "__main__":
    sys.exit(main())
