"""Executables to try the provider with, each with a directory of its own for its machines."""

import os
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from muster.integrations.command.machines import MachineMaker
from muster.integrations.command.parts import dialect_of
from muster.integrations.command.provider import CommandProvider
from muster.integrations.command.tables import CommandConfig, Dialect

EXAMPLES = Path(__file__).parents[3] / "examples" / "providers"
KEY = b"0123456789abcdef0123456789abcdef"
SERVER = "http://127.0.0.1:9"


def maker(provider: str = "command-local") -> MachineMaker:
    return MachineMaker(provider=provider, key=KEY, servers=[SERVER], dead_man=lambda _spec: 600.0)


def settings(executable: Path, config: Mapping[str, Any] | None = None, **more: Any) -> CommandConfig:
    return CommandConfig(name="local", executable=executable, config=config or {}, **more)


def provider_of(config: CommandConfig, installation_id: str) -> CommandProvider:
    spoken = dialect_of(config, installation_id=installation_id)
    return CommandProvider(config, spoken, maker(config.provider), installation_id=installation_id)


def script(path: Path, text: str) -> Path:
    """Write an executable."""
    path.write_text(text)
    path.chmod(0o755)
    return path


def garm(path: Path, **more: Any) -> CommandConfig:
    return settings(path, dialect=Dialect.GARM, config_file=path, **more)


def end_processes(root: Path) -> None:
    """End what the examples started below a directory."""
    for pid in root.glob("*/pid"):
        try:
            os.killpg(int(pid.read_text()), signal.SIGKILL)
        except (ProcessLookupError, ValueError):
            continue
