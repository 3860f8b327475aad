"""`muster resume`: lets go of the brake."""

from muster.cli.pause import Template, told
from muster.cli.printing import Output


def resume(template: Template = None, *, _output: Output = None) -> None:
    """Let a template go on, or everything apart from templates that are paused by name."""
    from muster.cli.connecting import connected
    from muster.client import calls

    with connected() as client:
        told(client.send(calls.resume(template)))
