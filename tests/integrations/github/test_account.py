from pathlib import Path
from typing import Any

import pytest

from muster.domain.errors import InvalidRequest
from muster.integrations.github.parts import Account, GitHub
from muster.integrations.github.runtime import RunnerPackage
from tests.integrations.github.conftest import ManualClock


@pytest.mark.parametrize(
    ("url", "api", "issuer"),
    [
        ("https://github.com", "https://api.github.com", "https://token.actions.githubusercontent.com"),
        (
            "https://github.example.com",
            "https://github.example.com/api/v3",
            "https://github.example.com/_services/token",
        ),
    ],
)
def test_where_the_api_is_and_who_signs_follow_from_the_url(url: str, api: str, issuer: str) -> None:
    account = Account(url=url)
    assert (account.api, account.signs) == (api, issuer)
    named = Account(url=url, api_url="https://api.test", issuer="https://issuer.test")
    assert (named.api, named.signs) == ("https://api.test", "https://issuer.test")


@pytest.mark.parametrize("content", [b"", b" \n", b"\xff\xfe"])
def test_a_secret_that_is_none_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "token"
    path.write_bytes(content)
    with pytest.raises(InvalidRequest, match="token_file"):
        GitHub(Account(token_file=path), RunnerPackage(path="/opt"), ManualClock(), installation_id="inst-1")


def test_a_runner_comes_from_the_image_or_from_a_pinned_package() -> None:
    assert RunnerPackage(path="/opt/runner").path
    assert RunnerPackage(version="2.999.0", sha256=("0" * 64,)).url.startswith("https://github.com/")
    halves: tuple[dict[str, Any], ...] = ({"version": "2.999.0"}, {"sha256": ("0" * 64,)}, {})
    for half in halves:
        with pytest.raises(InvalidRequest, match="runner_version"):
            RunnerPackage(**half)
