"""Decide the role of a person from what the provider says of them.

A rule gives a role to groups, to verified e-mail addresses, or to everyone (`*`). A person gets the role with
the most rights among the rules that fit. A person without a fitting rule gets none.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from muster.domain.access import Claims, Role

GRANTED = (Role.ADMIN, Role.OPERATOR, Role.VIEWER)
"""From most rights to least. Apps enrol with tokens; no person has that role."""
EVERYONE = "*"
GROUPS_MOST = 1000
CHOSEN_MOST = 20
"""Characters of a name that a person may choose: the subject behind it must fit into a session's name."""


def claims_of(said: Mapping[str, Any], *, groups_claim: str) -> Claims:
    """Read the claims. Text that no name or group can be is left out."""
    verified = said.get("email_verified") in (True, "true")
    email = _plain(said.get("email")) if verified else ""
    return Claims(groups=_groups(said, groups_claim), email=email.lower())


def name_of(said: Mapping[str, Any], claims: Claims) -> str:
    """Return how Muster names the person: by the verified address, else by the provider's subject.

    At many providers, people choose the other names themselves. So the subject follows such a name: without
    it, the audit could not tell two people apart.
    """
    if claims.email:
        return _plain(said.get("email"))
    subject = _plain(said.get("sub")) or "a person without a name"
    chosen = _plain(said.get("preferred_username")) or _plain(said.get("name"))
    return f"{chosen[:CHOSEN_MOST]} ({subject})" if chosen else subject


def role_of(rules: Mapping[str, Sequence[str]], person: Claims) -> Role | None:
    held = {*person.groups, EVERYONE}
    for role in GRANTED:
        if any(_fits(entry, held, person.email) for entry in rules.get(role, ())):
            return role
    return None


def _fits(entry: str, held: set[str], email: str) -> bool:
    return entry in held or bool(email and entry.lower() == email)


def _groups(said: Mapping[str, Any], claim: str) -> tuple[str, ...]:
    found: Any = said.get(claim)
    if found is None:
        found = said
        for part in claim.split("."):
            found = found.get(part) if isinstance(found, Mapping) else None
    if isinstance(found, str):
        return (found,)
    if not isinstance(found, Sequence):
        return ()
    # A group named like the sign for everyone would be taken for it.
    return tuple(each for each in found[:GROUPS_MOST] if isinstance(each, str) and each != EVERYONE)


def _plain(value: object) -> str:
    return value.strip() if isinstance(value, str) and value.isprintable() else ""
