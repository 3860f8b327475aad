"""Signing in: what the page offers, and terminals that a person signs in (`muster login`)."""

from muster.domain.access import Role
from muster.wire.base import EXAMPLE_TIME, Query, Shape, Time

USER_CODE = "BCDF-GHJK"


class SignInQuery(Query):
    to: str = "/"
    """The path of the page to come back to."""
    here: bool = False
    """Whether the browser was sent to the server's public address already."""


class SignInOffer(Shape):
    """How a person can sign in, and whether this browser is signed in."""

    EXAMPLE = {"name": "Example Login", "signed_in": False, "notice": ""}

    name: str | None = None
    """Of the identity provider; null: only tokens."""
    signed_in: bool = False
    """Whether the browser shows a valid session."""
    notice: str = ""
    """Why the last attempt failed, told once."""


class SignedOut(Shape):
    EXAMPLE = {"ended": True}

    ended: bool
    """Whether a session or login was ended. A token that an admin made stays."""


class DeviceLoginRequest(Shape):
    EXAMPLE = {"machine": "ada-laptop"}

    machine: str
    """How the person recognises the terminal: the name of its machine."""


class DeviceLogin(Shape):
    """What a terminal needs to be signed in, with the field names of RFC 8628."""

    EXAMPLE = {
        "device_code": "shown-once",
        "user_code": USER_CODE,
        "verification_uri": "https://muster.example.com/device",
        "verification_uri_complete": f"https://muster.example.com/device?code={USER_CODE}",
        "expires_in": 600,
        "interval": 2,
    }

    device_code: str
    """The terminal's secret. It is the token as soon as the person has confirmed."""
    user_code: str
    verification_uri: str
    verification_uri_complete: str
    expires_in: float
    interval: float
    """Seconds between two polls."""


class DeviceTokenRequest(Shape):
    EXAMPLE = {"device_code": "shown-once"}

    device_code: str


class DeviceToken(Shape):
    EXAMPLE = {
        "access_token": "shown-once",
        "token_type": "Bearer",
        "name": "ada@example.com on ada-laptop",
        "role": "operator",
        "expires_at": EXAMPLE_TIME,
    }

    access_token: str
    token_type: str = "Bearer"  # noqa: S105 — a word of the protocol
    name: str
    role: Role
    expires_at: Time | None = None


class WaitingDevice(Shape):
    """A terminal that waits, as the page shows it to the person."""

    EXAMPLE = {
        "user_code": USER_CODE,
        "machine": "ada-laptop",
        "created_at": EXAMPLE_TIME,
        "expires_at": EXAMPLE_TIME,
        "settled": None,
    }

    user_code: str
    machine: str
    created_at: Time
    expires_at: Time
    settled: str | None = None
    """`confirmed` or `denied`; null: it waits."""
