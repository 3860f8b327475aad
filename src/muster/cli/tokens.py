"""`muster tokens`: create, list and revoke API tokens."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from muster.cli import output
from muster.cli.connection import ask, calls, open_client
from muster.cli.exits import UsageProblem
from muster.cli.options import duration_option, list_group, lists
from muster.cli.output import time_left
from muster.domain import checks
from muster.domain.access import Role

if TYPE_CHECKING:
    from muster.wire.tokens import Token

app = list_group("Create, list and revoke API tokens.")


@app.command()
def create(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Who or what will use it.")],
    *,
    role: Annotated[
        str, typer.Option("--role", metavar="ROLE", help="viewer, operator, admin, or enrol (for apps).")
    ] = "operator",
    expires_in: Annotated[
        float | None,
        duration_option("--expires-in", "--ttl", help="e.g. 12h or 90d, at most 3650d. (default: never)"),
    ] = None,
    template: Annotated[
        str | None,
        typer.Option("--template", metavar="NAME", help="With --role enrol: the template of the apps."),
    ] = None,
) -> None:
    """Make a token. Its secret is shown once, now."""
    checks.known("role", role, tuple(Role))
    made = ask(calls.make_token(name, Role(role), expires_in=expires_in, template=template))
    output.show_facts(
        made,
        (
            ("token", made.secret),
            ("id", made.id),
            ("role", str(made.role) if made.template is None else f"{made.role} ({made.template})"),
            ("expires", f"in {output.time_left(made.expires_at)}" if made.expires_at else "never"),
        ),
    )
    if not output.wants_json():
        variable = "MUSTER_TOKEN" if made.template is None else "MUSTER_ENROL_TOKEN"
        output.say(f"copy it now: it is not shown again. Use it as {variable}.")


@lists(app)
def listed() -> None:
    """List tokens, without their secrets."""
    found = ask(calls.tokens())
    columns: output.Columns[Token] = (
        output.Column("ID", lambda each: each.id),
        output.Column("NAME", lambda each: each.name, cut=True),
        output.Column("KIND", lambda each: each.kind),
        output.Column("ROLE", lambda each: each.role),
        output.Column("AGE", lambda each: output.age(each.created_at), right=True),
        output.Column("STATE", _state),
    )
    document = {"items": [{**output.plain(each), "secret": None} for each in found]}
    output.show_table(document, found, columns, nothing="no tokens")


def _state(token: "Token") -> str:
    if token.revoked_at is not None:
        return "revoked"
    if token.expires_at is None:
        return "valid"
    left = time_left(token.expires_at)
    return "expired" if left == "over" else f"valid for {left}"


@app.command()
def revoke(
    token: Annotated[str, typer.Argument(metavar="ID", help="The token's id, as listed.")],
    *,
    last_admin: Annotated[
        bool, typer.Option("--last-admin", help="Revoke even the last valid admin token.")
    ] = False,
) -> None:
    """Revoke a token, at once and for ever."""
    with open_client() as client:
        if not last_admin:
            _check_others(token, client.send(calls.tokens()))
        found = client.send(calls.revoke_token(token))
    output.show({**output.plain(found), "secret": None}, f"✔ {found.id} ({found.name}) is revoked")


def _check_others(token: str, tokens: "Sequence[Token]") -> None:
    """Refuse to revoke the last admin token: it would lock out every admin."""
    admins = [each.id for each in tokens if each.role is Role.ADMIN and _state(each).startswith("valid")]
    if admins == [token]:
        raise UsageProblem(
            f"cannot revoke {token}: it is the only valid admin token; make another one first (`muster tokens"
            " create NAME --role admin`), or add --last-admin (`muster serve --new-admin` then makes one)"
        )
