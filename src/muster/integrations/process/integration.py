"""What the provider `process` adds to Muster."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from muster.integration import NO_HOME, OPERATING, TRYING, Command, Integration

if TYPE_CHECKING:
    from pathlib import Path

    from muster.ports.ids import Ids

_AT = "muster.integrations.process"


class Process(Integration):
    name = "process"
    providers = (name,)
    local = True
    shared = True
    setup = "set capacity under [process]"
    commands: ClassVar[Mapping[str, Command]] = {
        "down": Command(OPERATING, "Terminate all nodes and stop the server of this machine.", f"{_AT}.down"),
        "demo": Command(TRYING, "See it work: a server and three nodes, cold and warm.", f"{_AT}.demo"),
    }

    def running(self, nodes: "Path", tables: Mapping[str, Any]) -> Mapping[str, int]:
        from muster.slots.tree import running

        return running(tables[self.name].directory or nodes)

    def home(self, nodes: "Path", tables: Mapping[str, Any], ids: "Ids") -> str | None:
        """Return a name of the directory that no other machine's directory has."""
        import socket

        from muster.domain.errors import InvalidRequest

        settings = tables[self.name]
        if not settings.capacity:
            return NO_HOME
        directory = settings.directory or nodes
        path = directory / "home"
        try:
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            with path.open("x", encoding="utf-8") as file:
                file.write(f"{socket.gethostname()}:{directory.absolute()} ({ids.new('home')})")
        except FileExistsError:
            pass
        except OSError as error:
            rule = f"can't be used: {error.strerror}"
            raise InvalidRequest("[process] directory", str(directory), rule) from error
        return path.read_text(encoding="utf-8")


INTEGRATION = Process()
