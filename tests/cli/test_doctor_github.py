"""What the doctor says about GitHub, over a small one of our own."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from fakes.github import FakeGitHub
from muster.config import load
from muster.integration import Check, Level
from muster.integrations.github.doctor import checks


@pytest.fixture(scope="module")
def fake() -> Iterator[FakeGitHub]:
    made = FakeGitHub().start()
    yield made
    made.stop()


def _said(tmp_path: Path, text: str) -> list[Check]:
    path = tmp_path / "muster.toml"
    path.write_text(text)
    return list(checks(load(path)))


TEMPLATE = "[templates.ci]\nruntime = 'github'\n"
TRUST = "[trust.shop]\nrepository = 'acme/shop'\ntemplates = ['ci']\n"


@pytest.fixture
def token(tmp_path: Path) -> str:
    (tmp_path / "token").write_text("a-personal-token")
    return f"token_file = '{tmp_path}/token'\n"


def test_good_credentials_are_good_for_every_place_that_is_named(
    fake: FakeGitHub, tmp_path: Path, token: str
) -> None:
    of_acme = "[templates.big]\nruntime = 'github'\nreuse = 'never'\n[templates.big.runner]\nscope = 'acme'\n"
    said = _said(tmp_path, fake.settings() + token + TRUST + TEMPLATE + of_acme)
    assert [(check.level, check.words) for check in said] == [
        (Level.OK, "runners can be registered for acme"),
        (Level.OK, "runners can be registered for acme/shop"),
        (Level.OK, "workflow runs of acme/shop can be looked up"),
        (Level.OK, "this machine's own, as its GitHub is here too"),
    ]
    said = _said(tmp_path, fake.settings() + token + TRUST + of_acme)
    assert "runners can be registered for acme/shop" not in [check.words for check in said], "it is unused"


def test_the_right_to_look_up_runs_is_missed(fake: FakeGitHub, tmp_path: Path, token: str) -> None:
    fake.world.fault("GET /repos/acme/shop/actions/runs$", 403, message="Resource not accessible")
    said = _said(tmp_path, fake.settings() + token + TRUST + TEMPLATE)
    (check,) = [each for each in said if each.level is Level.FAILED]
    assert "list the runs of acme/shop" in check.words and "Actions: read" in check.advice


@pytest.mark.parametrize(
    ("public", "level"),
    [
        ("", Level.WARNING),
        ("[server]\npublic_url = 'http://localhost:8420'\n", Level.WARNING),
        ("[server]\npublic_url = 'https://muster.acme.test'\n", Level.OK),
    ],
)
def test_workflows_elsewhere_must_be_able_to_reach_the_server(
    tmp_path: Path, fake: FakeGitHub, token: str, public: str, level: Level
) -> None:
    settings = fake.settings().replace(f'\nurl = "{fake.url}"', "")
    said = _said(tmp_path, public + settings + token + TEMPLATE)
    assert [each.level for each in said if each.subject == "public_url"] == [level]


@pytest.mark.parametrize(
    ("written", "words"),
    [("an-old-token", "the credentials are wrong, revoked or expired"), ("", "must not be empty")],
)
def test_bad_credentials_are_named_without_showing_them(
    fake: FakeGitHub, tmp_path: Path, written: str, words: str
) -> None:
    (tmp_path / "token").write_text(written)
    said = _said(tmp_path, fake.settings() + f"token_file = '{tmp_path}/token'\n" + TRUST)
    assert said[0].level is Level.FAILED and words in said[0].words
    assert "an-old-token" not in repr(said)


def test_runners_without_any_word_on_github_are_a_failure(tmp_path: Path) -> None:
    (check,) = _said(tmp_path, TEMPLATE)
    assert check.level is Level.FAILED and "[github]" in check.advice


def test_a_runner_package_must_be_pinned(fake: FakeGitHub, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("a-personal-token")
    said = _said(tmp_path, f"[github]\ntoken_file = '{tmp_path}/token'\nrunner_version = '2.999.0'\n{TRUST}")
    assert "runner_sha256" in said[0].words


SET = """
[templates.linux]
runtime = "github"
reuse = "never"
[templates.linux.runner]
scope = "{scope}"
scale_set = "muster-linux"
labels = ["gpu"]
"""


def _about_sets(tmp_path: Path, fake: FakeGitHub, token: str, text: str) -> list[tuple[Level, str]]:
    said = _said(tmp_path, fake.settings() + token + text)
    return [(check.level, check.words) for check in said if check.subject == "scale set"]


def test_a_scale_set_that_can_be_made_is_good_and_is_not_made(
    fake: FakeGitHub, tmp_path: Path, token: str
) -> None:
    scope = "good/one"
    said = _about_sets(tmp_path, fake, token, SET.format(scope=scope))
    assert said == [(Level.OK, "muster-linux of good/one can be made")]
    assert fake.world.sets.of(scope) == []
    fake.world.sets.make(scope, "muster-linux", 1, ("muster-linux", "gpu"))
    said = _about_sets(tmp_path, fake, token, SET.format(scope=scope))
    assert said == [(Level.OK, "muster-linux of good/one is there")]


def test_what_is_odd_about_a_scale_set_is_said_with_the_next_act(
    fake: FakeGitHub, tmp_path: Path, token: str
) -> None:
    fake.world.groups["odd"] = {"big": 7}
    fake.world.sets.make("odd", "muster-linux", 1, ("muster-linux", "theirs"))
    fake.world.sets.make("odd", "muster-linux", 7, ())
    fake.world.sets.private_groups.add(1)
    text = SET.format(scope="odd") + SET.format(scope="odd").replace("linux]", "again]").replace(
        "linux.runner", "again.runner"
    )
    said = _said(tmp_path, fake.settings() + token + text)
    fake.world.sets.private_groups.clear()
    about = [check for check in said if check.subject == "scale set"]
    assert [check.words.partition(": ")[2] or check.words for check in about] == [
        "a set of the same name is in the group big: GitHub shares the jobs between them",
        "its runner group gets no jobs of public repositories",
        "theirs",
        "muster-linux of odd is there",
        "linux has it",
    ]
    assert all(check.advice for check in about if check.level is Level.WARNING)


@pytest.mark.parametrize("fault", ["group", "rights"])
def test_a_scale_set_that_can_t_be_had_is_refused_by_name(
    fake: FakeGitHub, tmp_path: Path, token: str, fault: str
) -> None:
    text = SET.format(scope="bad")
    if fault == "group":
        text += 'group = "none"\n'
    else:
        fake.world.fault("POST /orgs/bad/actions/runners/registration-token", 403, times=9)
    said = _about_sets(tmp_path, fake, token, text)
    fake.world.faults.clear()
    words = "runner group 'none' of bad" if fault == "group" else "get a registration token for bad"
    assert [(level, words in text) for level, text in said] == [(Level.FAILED, True)]


@pytest.mark.parametrize(
    ("given", "level", "says"),
    [
        (("['acme/shop']", "labels = ['muster']"), Level.OK, "of acme/shop with the labels muster"),
        (("[]", "labels = ['muster']"), Level.WARNING, "no repository may have machines"),
        (("['acme/*']", ""), Level.WARNING, "no template has labels for jobs"),
    ],
)
def test_webhooks_that_can_serve_nothing_are_told(
    tmp_path: Path, token: str, given: tuple[str, str], level: Level, says: str, *, fake: FakeGitHub
) -> None:
    repositories, runner = given
    (tmp_path / "secret").write_text("a-secret")
    hook = f"webhook_secret_file = '{tmp_path}/secret'\nrepositories = {repositories}\n"
    template = f"{TEMPLATE}reuse = 'never'\n[templates.ci.runner]\n{runner}\n"
    said = _said(tmp_path, fake.settings() + token + hook + template)
    (check,) = [each for each in said if "webhooks" in each.words]
    assert check.level is level and says in check.words
    assert not any("no workflow is trusted" in each.words for each in said)
