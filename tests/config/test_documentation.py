"""The reference of the settings file names every setting that there is."""

import re
from pathlib import Path

import pytest

from muster.config import schema
from muster.config.sources import ENVIRONMENT
from muster.discovery import installed
from muster.domain.template import POOL_KEEPING

DOCS = Path(__file__).parents[2] / "docs"
TABLES = {
    **{f"[{name}]": fields for name, fields in schema.SECTIONS.items()},
    **{f"[{name}{'.NAME' * table.named}]": table.keys for name, table in installed().tables.items()},
    "[classes.NAME]": schema.CLASS,
    "[templates.NAME]": schema.TEMPLATE,
    **{f"[templates.NAME.{each.name}]": each.keys for each in installed().template_tables.values()},
}
VARIABLES = [
    *ENVIRONMENT,
    *(
        table.variable(name, key)
        for name, table in installed().tables.items()
        for key in (*table.environment, *table.secret)
    ),
]
ELSEWHERE = {
    "[docker.NAME]": "docker.md",
    "[templates.NAME.docker]": "docker.md",
    "[kvm]": "kvm.md",
    "[templates.NAME.kvm]": "kvm.md",
    "[ssh]": "ssh.md",
    "[hosts.NAME]": "ssh.md",
    "[templates.NAME.ssh]": "ssh.md",
    "[ec2]": "ec2.md",
    "[templates.NAME.ec2]": "ec2.md",
    "[github]": "github.md",
    "[templates.NAME.runner]": "github.md",
    "[trust.NAME]": "github.md",
    "[aks]": "clusters.md",
    "[otlp]": "tracing.md",
    "[oidc]": "sign-in.md",
    "[webhooks.NAME]": "webhooks.md",
    "[templates.NAME.cluster]": "clusters.md",
    "[command.NAME]": "provider-protocol.md",
    "[templates.NAME.command]": "provider-protocol.md",
}


@pytest.mark.parametrize("table", TABLES)
def test_every_setting_of_a_table_is_told(table: str) -> None:
    text = (DOCS / ELSEWHERE.get(table, "configuration.md")).read_text()
    assert not [name for name in TABLES[table] if name not in text]


def test_the_reference_says_of_every_key_of_a_template_whether_its_change_replaces_nodes() -> None:
    text = (DOCS / "configuration.md").read_text()
    told = dict(re.findall(r"^\| `(\w+)` \| (node|pool) \|", text, re.MULTILINE))
    assert told == {name: "pool" if name in POOL_KEEPING else "node" for name in schema.TEMPLATE}


def test_every_variable_is_told() -> None:
    text = (DOCS / "configuration.md").read_text()
    assert not [name for name in VARIABLES if name not in text]
