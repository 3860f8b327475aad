from collections.abc import Iterator
from pathlib import Path

import pytest

from muster.integrations.process.demo_site import Site
from tests.cli.terminal import Terminal

CONFIG = """\
[templates.small]
resource_class = "small"

[templates.endless]
resource_class = "small"
boot_script = "exec sleep 600"

[templates.broken]
resource_class = "small"
boot_script = "echo this can not work; exit 3"
"""


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    """A real server with real nodes, once per module; nothing of it is left behind."""
    started = Site.started()
    try:
        yield started
    finally:
        leaked = started.end()
    assert leaked == 0


@pytest.fixture(scope="module")
def terminal(site: Site, tmp_path_factory: pytest.TempPathFactory) -> Terminal:
    directory = tmp_path_factory.mktemp("cli")
    made = Terminal(directory, {"MUSTER_DATA_DIR": str(site.directory)})
    (directory / "templates.toml").write_text(CONFIG)
    applied = made.muster("apply", "-f", "templates.toml")
    assert applied.code == 0, applied.err
    return made


@pytest.fixture
def alone(tmp_path: Path) -> Terminal:
    """A machine where no server ever ran."""
    return Terminal(tmp_path, {"MUSTER_DATA_DIR": str(tmp_path / "data"), "HOME": str(tmp_path)})
