"""The reference of the settings file names every setting that there is."""

from pathlib import Path

import pytest

from muster.config import schema
from muster.config.sources import ENVIRONMENT

DOCS = Path(__file__).parents[2] / "docs"
TABLES = {
    **{f"[{name}]": fields for name, fields in schema.SECTIONS.items()},
    "[classes.NAME]": schema.CLASS,
    "[templates.NAME]": schema.TEMPLATE,
    "[templates.NAME.ec2]": schema.TEMPLATE_EC2,
    "[templates.NAME.runner]": schema.TEMPLATE_RUNNER,
    "[trust.NAME]": schema.TRUST_RULE,
}
ELSEWHERE = {
    "[ec2]": "ec2.md",
    "[templates.NAME.ec2]": "ec2.md",
    "[github]": "github.md",
    "[templates.NAME.runner]": "github.md",
    "[trust.NAME]": "github.md",
    "[aks]": "clusters.md",
}


@pytest.mark.parametrize("table", TABLES)
def test_every_setting_of_a_table_is_told(table: str) -> None:
    text = (DOCS / ELSEWHERE.get(table, "configuration.md")).read_text()
    assert not [name for name in TABLES[table] if name not in text]


def test_every_variable_is_told() -> None:
    text = (DOCS / "configuration.md").read_text()
    assert not [name for name in ENVIRONMENT if name not in text]
