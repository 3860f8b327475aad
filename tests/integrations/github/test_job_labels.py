"""The grammar of labels: which template serves a job, in which size, and why none does."""

import pytest

from muster.domain.template import UsageClass
from muster.integrations.github.job_labels import Choice, NoChoice, Offer, choose
from muster.integrations.github.runners import Scope

SPOT, ON_DEMAND = UsageClass.SPOT, UsageClass.ON_DEMAND
OFFERS = [
    Offer(template="linux", labels=frozenset({"muster-linux", "x64"}), sizes=("large", "xlarge")),
    Offer(template="gpu", labels=frozenset({"muster-linux", "x64", "gpu"})),
    Offer(template="odd", labels=frozenset({"muster/odd"})),
]


@pytest.mark.parametrize(
    ("labels", "choice"),
    [
        (["muster-linux"], Choice(template="linux")),
        (["Muster-Linux", "X64"], Choice(template="linux")),
        (["muster-linux", "gpu"], Choice(template="gpu")),
        (["muster-linux/xlarge"], Choice(template="linux", resource_class="xlarge")),
        (["muster-linux/spot/xlarge"], Choice(template="linux", resource_class="xlarge", usage=(SPOT,))),
        (["muster-linux/on-demand"], Choice(template="linux", usage=(ON_DEMAND,))),
        (["muster-linux/spot-then-on-demand"], Choice(template="linux", usage=(SPOT, ON_DEMAND))),
        (["x64", "muster-linux/large"], Choice(template="linux", resource_class="large")),
        (["muster-linux/16xlarge"], Choice(template="gpu", resource_class="16xlarge")),
        (["muster/odd"], Choice(template="odd")),
        (["ubuntu-latest"], None),
        (["self-hosted"], None),
        ([], None),
        ([""], None),
    ],
)
def test_labels_choose_a_template_its_size_and_its_usage(labels: list[str], choice: Choice | None) -> None:
    assert choose(labels, "acme/shop", OFFERS) == choice


@pytest.mark.parametrize(
    ("labels", "says"),
    [
        (["muster-linux", "arm64"], "labels muster-linux, arm64"),
        (["muster-linux/huge"], "huge is neither a size nor a usage: they are small, large"),
        (["muster-linux/large/xlarge"], "xlarge is a second size or usage"),
        (["muster-linux/spot/on-demand"], "on-demand is a second size or usage"),
        (["muster-linux/"], "an empty option is neither"),
        (["muster-linux/large", "x64/spot/large"], "large is a second size or usage"),
    ],
)
def test_labels_that_name_us_and_fit_nothing_say_why(labels: list[str], says: str) -> None:
    found = choose(labels, "acme/shop", OFFERS)
    assert isinstance(found, NoChoice)
    assert says in found.detail


def test_a_size_that_no_template_allows_is_refused_by_name() -> None:
    found = choose(["muster-linux/16xlarge"], "acme/shop", OFFERS[:1])
    assert found == NoChoice("linux allows the sizes large, xlarge, not 16xlarge")


@pytest.mark.parametrize(
    ("scope", "repository", "serves"),
    [
        ("acme/shop", "acme/shop", True),
        ("acme/shop", "Acme/Shop", True),
        ("acme/shop", "acme/other", False),
        ("acme/shop", "beta/shop", False),
        ("acme", "Acme/shop", True),
        ("acme", "beta/acme", False),
        ("acme", "acme-2/shop", False),
        ("enterprises/acme", "beta/x", True),
    ],
)
def test_a_template_serves_only_what_its_scope_covers(scope: str, repository: str, serves: bool) -> None:
    near = Offer(template="near", labels=frozenset({"muster-linux"}), scope=Scope.named(scope))
    wide = Offer(template="wide", labels=frozenset({"muster-linux", "x64"}))
    expected = Choice(template="near" if serves else "wide")
    assert choose(["muster-linux"], repository, [wide, near]) == expected


def test_a_job_outside_of_the_scope_of_all_templates_is_told_where_their_runners_are() -> None:
    offer = Offer(template="linux", labels=frozenset({"muster-linux"}), scope=Scope.named("acme"))
    found = choose(["muster-linux"], "beta/x", [offer])
    assert found == NoChoice("linux has its runners at acme, not for beta/x")
