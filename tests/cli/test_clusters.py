"""What is wrong with a cluster's name or recipe is said before anybody is asked."""

from pathlib import Path

import pytest

from muster.config import ConfigError, load
from muster.integrations.aks.tables import TEMPLATE as TABLE
from muster_simulation.demo_aks import CONFIG, SCOPE, TEMPLATE
from tests.cli.terminal import Terminal

GOOD = CONFIG.format(endpoint="http://127.0.0.1:1", poll_every=1.0, template=TEMPLATE, scope=SCOPE)


@pytest.mark.parametrize("name", ["", "-a", "a b", "x" * 64])
def test_a_bad_name_needs_no_server_to_be_refused(alone: Terminal, name: str) -> None:
    said = alone.muster("clusters", "create", "--template", "batch", "-o", "json", "--", name)
    assert (said.code, said.error["code"]) == (2, "invalid_request")
    assert "begin and end with a letter or digit" in said.error["message"]


def test_a_state_that_is_none_and_a_missing_template_are_refused(alone: Terminal) -> None:
    assert "must be one of creating, ready" in alone.muster("clusters", "--state", "odd").err
    assert alone.muster("clusters", "create", "c1").code == 2


def test_the_recipe_of_the_demo_is_read_whole(tmp_path: Path) -> None:
    path = tmp_path / "muster.toml"
    path.write_text(GOOD)
    (template,) = load(path).templates
    cluster = TABLE.of(template)
    assert (template.provider, cluster.nodes, template.clusters) == ("aks", 11, True)
    assert list(cluster.tags.values()) == ["genomics"]
    assert load(path).tables["aks"].poll_every == 1.0


@pytest.mark.parametrize(
    ("before", "after", "says"),
    [
        (
            "count = 10",
            "count = 0",
            r"cluster.pools\[1\].count|pools\[1\].count must be a whole number from 1",
        ),
        ("count = 10", "count = 5000", "must be a whole number from 1 to 1000"),
        ('mode = "System"', 'mode = "User"', "at least one pool of mode System"),
        ('mode = "System"', 'mode = "system"', "must be one of System, User"),
        ("Standard_D4s_v5", "Standard_Huge", "must be the name of a size"),
        ("Standard_D4s_v5", "Standard_D4sv5", r"pools\[0\].vm_size.*did you mean Standard_D4s_v5"),
        ("vm_size", "vm_sise", "did you mean vm_size"),
        ('region = "westeurope"', 'regoin = "westeurope"', "did you mean region"),
        ('region = "westeurope"', "", "must be given"),
        ('role = "AcrPull"', 'role = "Owner"', "must be one of AcrPull"),
        ('provider = "aks"', 'provider = "process"', "must be left out: it is for the provider aks"),
        ("http://127.0.0.1:1", "http://example.com", "must be https"),
        ('tags = { team = "genomics" }', "tags = 3", "must be a table of at most 45 names and values"),
    ],
)
def test_a_recipe_that_can_not_work_is_refused_with_the_key_and_the_rule(
    tmp_path: Path, before: str, after: str, says: str
) -> None:
    path = tmp_path / "muster.toml"
    assert before in GOOD
    path.write_text(GOOD.replace(before, after, 1))
    with pytest.raises(ConfigError, match=says) as refusal:
        load(path)
    assert str(path) in str(refusal.value)
