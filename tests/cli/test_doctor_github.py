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
    assert "runners can be registered for acme/shop" not in [check.words for check in said], "nobody wants it"


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
