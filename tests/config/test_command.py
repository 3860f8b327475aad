"""The settings of executables, as people write them."""

from pathlib import Path

import pytest

from muster.config import load
from muster.domain.errors import MusterError
from muster.integrations.command.tables import TEMPLATE, CommandConfig, Dialect

WHOLE = """
[command.rack]
executable = "/opt/rack"
arguments = ["--zone", "b"]
environment = ["RACK_TOKEN"]
call_timeout = 20
[command.rack.config]
region = "eu-1"
sizes.small = 2
[command.lxd]
executable = "/opt/lxd"
dialect = "garm"
config_file = "/etc/lxd.toml"
config = {}
[templates.ci]
provider = "command-rack"
[templates.ci.command.settings]
image = "debian"
networks = ["a", "b"]
disk.size = 20
"""


def written(path: Path, text: str) -> Path:
    (path / "muster.toml").write_text(text)
    return path / "muster.toml"


def test_executables_and_what_templates_say_of_them_are_read(tmp_path: Path) -> None:
    config = load(written(tmp_path, WHOLE))
    rack, lxd = config.tables["command"]
    assert rack == CommandConfig(
        name="rack",
        executable=Path("/opt/rack"),
        arguments=("--zone", "b"),
        environment=("RACK_TOKEN",),
        call_timeout=20.0,
        config={"region": "eu-1", "sizes": {"small": 2}},
    )
    assert (lxd.dialect, lxd.config_file, lxd.config) == (Dialect.GARM, Path("/etc/lxd.toml"), {})
    assert Path("/etc/lxd.toml") in config.private
    settings = TEMPLATE.of(config.templates[0]).settings
    assert settings == {"image": "debian", "networks": ["a", "b"], "disk": {"size": 20}}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "[command.a]\nexecutabel = '/x'\n",
            "line 2 (command.a.executabel): there is no executabel; did you mean",
        ),
        ("[command.a]\n", "executable must be given under [command.a]"),
        ("[command.a]\nexecutable = 'bin/x'\n", "must be an absolute path"),
        ("[command.A_B]\nexecutable = '/x'\n", "lower-case"),
        ("[command.a]\nexecutable = '/x'\nconfig = 3\n", "line 3 (command.a.config): config is a table"),
        ("[command.a]\nexecutable = '/x'\nconfig.when = 2026-01-01\n", "config.when must be text, a number"),
        ("[command.a]\nexecutable = '/x'\ndialect = 'garm'\n", "config_file must be given"),
        ("[command]\nexecutable = '/x'\n", "is a table: write [command.NAME]"),
        ("[templates.ci]\nprovider = 'comand-a'\n", "there is no provider comand-a"),
        ("[templates.ci.command.settings]\nimage = 'x'\n", "command must be left out"),
        (
            "[templates.ci]\nprovider = 'command-a'\n[templates.ci.command]\nimage = 'x'\n",
            "there is no image",
        ),
    ],
)
def test_a_slip_is_named_with_its_place(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(MusterError) as caught:
        load(written(tmp_path, text))
    assert said in str(caught.value)
