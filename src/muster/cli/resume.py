"""`muster resume`: end a pause."""

from muster.cli.pause import Template, told
from muster.cli.printing import Output


def resume(template: Template = None, *, _output: Output = None) -> None:
    """End the pause of a template, or the pause of all. Templates paused by name stay paused."""
    from muster.cli.connecting import connected
    from muster.client import calls

    with connected() as client:
        told(client.send(calls.resume(template)))
