"""[oidc]: what is refused before a server starts, and who gets which role."""

from pathlib import Path
from typing import Any

import pytest

from muster.config import ConfigError, load
from muster.domain.access import Role
from muster.domain.errors import InvalidRequest
from muster.integrations.oidc.parts import client_secret
from muster.integrations.oidc.roles import CHOSEN_MOST, claims_of, name_of, role_of
from muster.integrations.oidc.tables import OidcConfig

WHOLE = '[oidc]\nissuer = "https://id.example.com"\nclient_id = "muster"\n'
ROLES = '[oidc.roles]\nviewer = ["*"]\n'
RULES = {"admin": ("leads", "Ada@Example.com"), "operator": ("platform",), "viewer": ("staff",)}


def _loaded(tmp_path: Path, text: str, **environment: str) -> OidcConfig:
    path = tmp_path / "muster.toml"
    path.write_text(text)
    found: OidcConfig = load(path, environment=environment).tables["oidc"]
    return found


def test_the_settings_are_read_with_their_defaults(tmp_path: Path) -> None:
    found = _loaded(tmp_path, WHOLE + ROLES, MUSTER_OIDC_CLIENT_SECRET="hidden")
    assert (found.shown_name, found.groups_claim, found.scopes) == (
        "id.example.com", "groups", ("openid", "profile", "email"),
    )  # fmt: skip
    assert (found.client_secret, found.roles) == ("hidden", {"viewer": ("*",)})
    assert "hidden" not in repr(found)
    assert not _loaded(tmp_path, "").configured


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (WHOLE.replace("https", "http") + ROLES, "must be an https address"),
        (WHOLE, "must give a role to some groups"),
        (
            WHOLE + '[oidc.roles]\nowner = ["x"]\n',
            "(oidc.roles.owner): roles.owner must be one of admin, operator, viewer",
        ),
        (WHOLE + '[oidc.roles]\nenrol = ["x"]\n', "roles.enrol must be one of admin, operator, viewer"),
        (WHOLE + '[oidc.roles]\nviewer = "x"\n', "must be a list"),
        (WHOLE.replace('client_id = "muster"\n', "") + ROLES, "client_id must be given"),
        (ROLES, "issuer must be given"),
        (WHOLE + 'scopes = ["email"]\n' + ROLES, "must have openid"),
        (WHOLE + 'client_secret = "x"\n' + ROLES, "must not be in this file"),
        (WHOLE + "session_idle = 90000\n" + ROLES, "must not be above session_max"),
        (WHOLE + "isuer = 1\n" + ROLES, "did you mean issuer"),
    ],
)
def test_settings_that_cannot_work_are_refused(tmp_path: Path, text: str, why: str) -> None:
    with pytest.raises(ConfigError) as told:
        _loaded(tmp_path, text)
    assert why in str(told.value) and "muster.toml line " in str(told.value)


def test_on_this_machine_a_provider_may_speak_plain_http(tmp_path: Path) -> None:
    text = WHOLE.replace("https://id.example.com", "http://127.0.0.1:4000/") + ROLES
    assert _loaded(tmp_path, text).issuer == "http://127.0.0.1:4000/", "as it is written: it is compared"


def test_the_secret_is_read_from_its_file_and_never_shown(tmp_path: Path) -> None:
    file = tmp_path / "secret"
    config = OidcConfig(issuer="https://id.example.com", client_id="muster", client_secret_file=file)
    with pytest.raises(InvalidRequest, match="must be a file that can be read"):
        client_secret(config)
    file.write_text("\n")
    with pytest.raises(InvalidRequest, match="must not be empty"):
        client_secret(config)
    file.write_text("hidden\n")
    assert client_secret(config) == "hidden"


@pytest.mark.parametrize(
    ("said", "role"),
    [
        ({"groups": ["staff"]}, Role.VIEWER),
        ({"groups": ["staff", "platform"]}, Role.OPERATOR),
        ({"groups": ["leads", "staff"]}, Role.ADMIN),
        ({"groups": "platform"}, Role.OPERATOR),
        ({"groups": ["Platform", "platform "]}, None),
        ({"groups": []}, None),
        ({"groups": {"platform": True}}, None),
        ({"groups": [7, None, "*"]}, None),
        ({"email": "ada@example.com", "email_verified": True}, Role.ADMIN),
        ({"email": "ADA@example.com", "email_verified": "true"}, Role.ADMIN),
        ({"email": "ada@example.com", "email_verified": False}, None),
        ({"email": "ada@example.com"}, None),
        ({"email": "ada@example.com.evil.com", "email_verified": True}, None),
    ],
)
def test_the_role_with_the_most_rights_that_fits_counts(said: dict[str, Any], role: Role | None) -> None:
    assert role_of(RULES, claims_of({"sub": "u", **said}, groups_claim="groups")) is role


def test_a_group_that_is_called_like_everyone_is_not_everyone() -> None:
    person = claims_of({"sub": "u", "groups": ["*"]}, groups_claim="groups")
    assert role_of({"admin": ("leads",)}, person) is None
    assert role_of({"viewer": ("*",)}, person) is Role.VIEWER


def test_groups_may_be_inside_of_objects() -> None:
    said = {"sub": "u", "realm_access": {"roles": ["platform"]}, "a.b": ["staff"]}
    assert claims_of(said, groups_claim="realm_access.roles").groups == ("platform",)
    assert claims_of(said, groups_claim="a.b").groups == ("staff",)
    assert claims_of(said, groups_claim="realm_access.roles.more").groups == ()


@pytest.mark.parametrize(
    ("said", "name"),
    [
        ({"email": "ada@example.com", "email_verified": True, "name": "Ada"}, "ada@example.com"),
        ({"email": "root@example.com", "preferred_username": "eve"}, "eve (u-1)"),
        ({"preferred_username": "ada@example.com", "name": "Ada"}, "ada@example.com (u-1)"),
        ({"name": "A" * (CHOSEN_MOST + 1)}, "A" * CHOSEN_MOST + " (u-1)"),
        ({"name": "Ada\nadmin (tok-1)"}, "u-1"),
        ({"name": "  "}, "u-1"),
    ],
)
def test_people_are_named_by_what_they_can_not_choose(said: dict[str, Any], name: str) -> None:
    told = {"sub": "u-1", **said}
    assert name_of(told, claims_of(told, groups_claim="groups")) == name
