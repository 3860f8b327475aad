"""Whether containers of an engine can reach the server, as far as the settings tell."""

from collections.abc import Sequence
from urllib.parse import urlsplit

from muster.config.values import LOOPBACK
from muster.integrations.docker.spec import HOST_NETWORK
from muster.integrations.docker.tables import EngineConfig


def unreachable(config: EngineConfig, urls: Sequence[str]) -> str | None:
    """Why they can't; None if they may."""
    own = [each for each in (config.server_url or urls) if urlsplit(each).hostname in LOOPBACK]
    if not own or (config.network == HOST_NETWORK and config.socket is not None):
        return None
    return (
        f"containers on engine {config.name} can't reach {own[0]}: it is a loopback address; "
        f'set server_url under [docker.{config.name}], or network = "host" for an engine on this machine'
    )
