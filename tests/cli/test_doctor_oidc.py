"""`muster doctor` about [oidc]: the provider's description, the secret, and where people come back to."""

from pathlib import Path

from tests.cli.terminal import Terminal

SETTINGS = """\
[server]
public_url = "{public}"
[oidc]
issuer = "http://127.0.0.1:9"
client_id = "muster"
client_secret_file = "{secret}"
[oidc.roles]
viewer = ["*"]
"""


def _checks(alone: Terminal, public: str, secret: Path) -> list[tuple[str, str]]:
    (alone.directory / "muster.toml").write_text(SETTINGS.format(public=public, secret=secret))
    said = alone.muster("doctor", "-f", "muster.toml", "-o", "json")
    return [(each["level"], each["words"]) for each in said.json["checks"] if each["subject"] == "oidc"]


def test_a_provider_that_does_not_answer_and_a_plain_address_are_told(alone: Terminal) -> None:
    secret = alone.directory / "secret"
    secret.write_text("hidden")
    (asked, back) = _checks(alone, "http://muster.example.com", secret)
    assert asked[0] == "failed" and "the identity provider http://127.0.0.1:9 is not available" in asked[1]
    assert back[0] == "warning" and "is plain HTTP: the session's cookie can be read" in back[1]
    (_, back) = _checks(alone, "https://muster.example.com", secret)
    assert back == (
        "ok",
        "register this redirect address at the provider: https://muster.example.com/api/v1/sign-in/callback",
    )


def test_a_secret_that_cannot_be_read_is_told(alone: Terminal) -> None:
    (asked, _) = _checks(alone, "https://muster.example.com", alone.directory / "none")
    assert asked[0] == "failed" and "must be a file that can be read" in asked[1]
