"""The way back for a host that can't reach the server: a port of its loopback that leads to the server.

The port is fixed, because an agent learns where the server is once, at its start. The tunnel hangs on this
server's connection: while that is cut, the host's nodes are silent.
"""

from dataclasses import dataclass
from urllib.parse import urlsplit

from muster.domain.errors import InvalidRequest
from muster.integrations.ssh.command import Ssh
from muster.integrations.ssh.inventory import Host
from muster.integrations.ssh.session import Lost, NotOpened, Refused, Session, run

WITHIN = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Tunnel:
    host: Host
    ssh: Ssh
    server: str
    """Where this machine reaches the server."""

    def __post_init__(self) -> None:
        if urlsplit(self.server).scheme != "http":
            rule = (
                f"can't lead to {self.server}: behind a tunnel TLS doesn't find its name; give the host a way"
                " to the server, or let the server listen on loopback without TLS"
            )
            raise InvalidRequest(f"[hosts.{self.host.name}] tunnel", self.host.settings.tunnel, rule)

    @property
    def url(self) -> str:
        """Where the host reaches the server."""
        return f"http://127.0.0.1:{self.host.settings.tunnel}"

    async def hold(self, session: Session) -> None:
        """Have ssh's master forward the port. Raises NotOpened if the host can't reach the server then."""
        parts = urlsplit(self.server)
        target = f"{parts.hostname}:{parts.port or 80}"
        forward = f"127.0.0.1:{self.host.settings.tunnel}:{target}"
        argv = self.ssh.control(self.host, "forward", "-R", forward)
        code, _, words = await run(argv, within=WITHIN)
        # Another replica's tunnel may have the port, and is as good.
        try:
            told = await session.ask("facts", within=WITHIN, urls=[self.url])
        except (Lost, Refused) as error:
            raise NotOpened(str(error)) from error
        why = told["reached"][self.url]
        if why:
            cause = words.strip().rpartition("\n")[2] or f"ssh ended with {code}"
            raise NotOpened(
                f"its port {self.host.settings.tunnel} doesn't lead to the server: {why} ({cause})"
            )
